"""Image classifiers: VGG, ResNet, MobileNet, SE-ResNeXt, GoogLeNet, AlexNet, a segmentation net.

A bias in front of a normalisation has a gradient of pure rounding noise, and Adam would make whole steps
of it: nets with such a bias train with Momentum.
"""

from typing import Any, Dict, List, Tuple

from ..cases import Built, Feed, Run, case, floats, ids, train


def inputs(fluid: Any, channels: int = 3, size: int = 8) -> Tuple[Any, Any]:
    image = fluid.data(name="image", shape=[None, channels, size, size], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    return image, label


def feeds(batch: int = 4, channels: int = 3, size: int = 8, classes: int = 5) -> Dict[str, Feed]:
    return {"image": floats(batch, channels, size, size), "label": ids(batch, 1, below=classes)}


def classify(fluid: Any, features: Any, label: Any, classes: int = 5) -> Tuple[Any, Any, Any]:
    predicted = fluid.layers.fc(features, size=classes, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=label))
    return predicted, loss, fluid.layers.accuracy(input=predicted, label=label)


def evaluated(fluid: Any, test: Any, batch: Dict[str, Feed], fetch: List[Any]) -> Built:
    """Train on the default program; after the last step run the test program once."""
    built = train(fluid, batch, *fetch)
    built.after.append(Run(test, batch, fetch))
    return built


@case
def vgg(fluid: Any) -> Built:
    image, label = inputs(fluid)
    hidden = image
    for filters, repeats in ((4, 2), (6, 1)):
        hidden = fluid.nets.img_conv_group(
            input=hidden,
            conv_num_filter=[filters] * repeats,
            pool_size=2,
            conv_padding=1,
            conv_filter_size=3,
            conv_act="relu",
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=[0.0] * repeats,
            pool_stride=2,
            pool_type="max",
        )
    hidden = fluid.layers.dropout(hidden, dropout_prob=0.0)
    hidden = fluid.layers.fc(hidden, size=16, act=None)
    hidden = fluid.layers.batch_norm(hidden, act="relu")
    hidden = fluid.layers.dropout(hidden, dropout_prob=0.0, dropout_implementation="upscale_in_train")
    _, loss, accuracy = classify(fluid, hidden, label)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9).minimize(loss)
    return evaluated(fluid, test, feeds(), [loss, accuracy])


@case
def dropout_test_mode(fluid: Any) -> Built:
    """Dropout as it acts at test time, in both implementations, and in the clone for testing."""
    x = fluid.data(name="x", shape=[None, 6], dtype="float32")
    hidden = fluid.layers.fc(x, size=8, act="relu")
    hidden = fluid.layers.dropout(hidden, dropout_prob=0.3, is_test=True)
    hidden = fluid.layers.dropout(
        hidden, dropout_prob=0.4, is_test=True, dropout_implementation="upscale_in_train"
    )
    out = fluid.layers.fc(hidden, size=2)
    noisy = fluid.layers.dropout(out, dropout_prob=0.25)
    scaled = fluid.layers.dropout(noisy, dropout_prob=0.25, dropout_implementation="upscale_in_train")
    loss = fluid.layers.reduce_mean(scaled)
    test = fluid.default_main_program().clone(for_test=True)
    return Built([Run(test, {"x": floats(4, 6)}, [loss, out, noisy, scaled])])


def conv_bn(
    fluid: Any,
    x: Any,
    filters: int,
    size: int,
    stride: int = 1,
    act: Any = "relu",
    groups: int = 1,
    name: Any = None,
) -> Any:
    conv = fluid.layers.conv2d(
        input=x,
        num_filters=filters,
        filter_size=size,
        stride=stride,
        padding=(size - 1) // 2,
        groups=groups,
        act=None,
        bias_attr=False,
        param_attr=fluid.ParamAttr(name=name and name + "_weights"),
    )
    if name is None:
        return fluid.layers.batch_norm(input=conv, act=act)
    return fluid.layers.batch_norm(
        input=conv,
        act=act,
        param_attr=fluid.ParamAttr(name=name + "_scale"),
        momentum=0.8,
        bias_attr=fluid.ParamAttr(name + "_offset"),
        moving_mean_name=name + "_mean",
        moving_variance_name=name + "_variance",
    )


def shortcut(fluid: Any, x: Any, filters: int, stride: int) -> Any:
    same = x.shape[1] == filters and stride == 1
    return x if same else conv_bn(fluid, x, filters, 1, stride, act=None)


def basic_block(fluid: Any, x: Any, filters: int, stride: int) -> Any:
    out = conv_bn(fluid, conv_bn(fluid, x, filters, 3, stride), filters, 3, act=None)
    return fluid.layers.elementwise_add(x=shortcut(fluid, x, filters, stride), y=out, act="relu")


def bottleneck(fluid: Any, x: Any, filters: int, stride: int) -> Any:
    out = conv_bn(fluid, conv_bn(fluid, x, filters, 1), filters, 3, stride)
    out = conv_bn(fluid, out, filters * 2, 1, act=None)
    return fluid.layers.elementwise_add(x=shortcut(fluid, x, filters * 2, stride), y=out, act="relu")


@case
def resnet_basic(fluid: Any) -> Built:
    image, label = inputs(fluid)
    hidden = conv_bn(fluid, image, 4, 3, name="stem")
    hidden = fluid.layers.pool2d(hidden, pool_size=3, pool_stride=1, pool_padding=1, pool_type="max")
    hidden = basic_block(fluid, hidden, 4, 1)
    hidden = basic_block(fluid, hidden, 6, 2)
    pooled = fluid.layers.pool2d(hidden, pool_type="avg", global_pooling=True)
    _, loss, accuracy = classify(fluid, pooled, label)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Momentum(
        learning_rate=fluid.layers.piecewise_decay(boundaries=[3, 6], values=[0.1, 0.05, 0.01]),
        momentum=0.9,
        regularization=fluid.regularizer.L2Decay(1e-2),
    ).minimize(loss)
    return evaluated(fluid, test, feeds(), [loss, accuracy])


@case
def resnet_bottleneck(fluid: Any) -> Built:
    image, label = inputs(fluid)
    hidden = conv_bn(fluid, image, 4, 3, 2)
    hidden = bottleneck(fluid, hidden, 4, 1)
    hidden = bottleneck(fluid, hidden, 4, 2)
    pooled = fluid.layers.pool2d(hidden, pool_size=2, pool_type="avg")
    logits = fluid.layers.fc(
        pooled, size=5, param_attr=fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.3, 0.3))
    )
    loss, softmax = fluid.layers.softmax_with_cross_entropy(logits, label, return_softmax=True)
    loss = fluid.layers.mean(loss)
    top = fluid.layers.accuracy(input=softmax, label=label, k=2)
    rate = fluid.layers.linear_lr_warmup(fluid.layers.cosine_decay(0.1, 5, 4), 4, 0.01, 0.1)
    fluid.optimizer.MomentumOptimizer(
        learning_rate=rate, momentum=0.9, use_nesterov=True, regularization=fluid.regularizer.L2Decay(1e-3)
    ).minimize(loss)
    return train(fluid, feeds(), loss, top)


@case
def mobilenet(fluid: Any) -> Built:
    """Depthwise and grouped convolutions, relu6, hard swish."""
    image, label = inputs(fluid)
    hidden = conv_bn(fluid, image, 4, 3, 2, act="relu6")
    depthwise = fluid.layers.conv2d(
        hidden, num_filters=4, filter_size=3, padding=1, groups=4, use_cudnn=False, bias_attr=False
    )
    hidden = fluid.layers.batch_norm(depthwise, act="relu6")
    expanded = conv_bn(fluid, hidden, 8, 1, act=None)
    expanded = fluid.layers.hard_swish(expanded)
    multiplied = fluid.layers.conv2d(
        expanded, num_filters=16, filter_size=3, padding=1, groups=8, use_cudnn=False
    )
    grouped = fluid.layers.conv2d(multiplied, num_filters=4, filter_size=1, groups=2)
    hidden = fluid.layers.elementwise_add(hidden, grouped)
    pooled = fluid.layers.adaptive_pool2d(hidden, pool_size=[1, 1], pool_type="avg")
    _, loss, accuracy = classify(fluid, pooled, label)
    fluid.optimizer.RMSProp(learning_rate=0.01, momentum=0.9).minimize(loss)
    return train(fluid, feeds(), loss, accuracy)


@case
def se_resnext(fluid: Any) -> Built:
    """Squeeze and excitation: a channel-wise product."""
    image, label = inputs(fluid)
    hidden = conv_bn(fluid, image, 8, 3, 2)
    out = conv_bn(fluid, hidden, 8, 3, groups=4, act=None)
    squeezed = fluid.layers.pool2d(out, pool_size=0, pool_type="avg", global_pooling=True)
    squeezed = fluid.layers.fc(squeezed, size=4, act="relu")
    gate = fluid.layers.fc(squeezed, size=8, act="sigmoid")
    scaled = fluid.layers.elementwise_mul(x=out, y=gate, axis=0)
    hidden = fluid.layers.elementwise_add(hidden, scaled, act="relu")
    pooled = fluid.layers.reduce_mean(hidden, dim=[2, 3])
    _, loss, accuracy = classify(fluid, pooled, label)
    fluid.optimizer.Momentum(learning_rate=0.05, momentum=0.9).minimize(loss)
    return train(fluid, feeds(), loss, accuracy)


@case
def googlenet(fluid: Any) -> Built:
    """An inception block: branches joined along the channels, pools that round up."""
    image, label = inputs(fluid)
    hidden = fluid.layers.conv2d(image, num_filters=4, filter_size=3, stride=2, padding=1, act="relu")
    hidden = fluid.layers.pool2d(hidden, pool_size=3, pool_stride=2, pool_type="max", ceil_mode=True)
    one = fluid.layers.conv2d(hidden, num_filters=2, filter_size=1, act="relu")
    three = fluid.layers.conv2d(
        fluid.layers.conv2d(hidden, num_filters=2, filter_size=1),
        num_filters=3,
        filter_size=3,
        padding=1,
        act="relu",
    )
    five = fluid.layers.conv2d(hidden, num_filters=2, filter_size=[5, 3], padding=[2, 1], act="relu")
    pooled = fluid.layers.pool2d(
        hidden, pool_size=3, pool_stride=1, pool_padding=1, pool_type="avg", exclusive=False
    )
    joined = fluid.layers.concat([one, three, five, pooled], axis=1)
    _, main_loss, accuracy = classify(fluid, joined, label)
    _, side_loss, _ = classify(fluid, hidden, label)
    loss = main_loss + 0.3 * side_loss
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, feeds(), loss, main_loss, side_loss, accuracy)


@case
def alexnet(fluid: Any) -> Built:
    """Local response normalisation, strides, dilation, group_norm and instance_norm."""
    image, label = inputs(fluid)
    hidden = fluid.layers.conv2d(
        image, num_filters=4, filter_size=3, stride=1, padding=2, dilation=2, act="relu"
    )
    hidden = fluid.layers.lrn(hidden, n=5, alpha=1e-2, beta=0.75)
    hidden = fluid.layers.pool2d(hidden, pool_size=2, pool_stride=2)
    hidden = fluid.layers.conv2d(hidden, num_filters=4, filter_size=2, padding="SAME")
    hidden = fluid.layers.group_norm(hidden, groups=2)
    hidden = fluid.layers.instance_norm(hidden)
    hidden = fluid.layers.conv2d(hidden, num_filters=3, filter_size=2, padding="VALID", act="tanh")
    _, loss, accuracy = classify(fluid, hidden, label)
    fluid.optimizer.Momentum(learning_rate=0.05, momentum=0.9).minimize(loss)
    return train(fluid, feeds(), loss, accuracy)


@case
def segmentation(fluid: Any) -> Built:
    """Down, up by transposed convolution and by resizing, skip connection, a loss per pixel."""
    image = fluid.data(name="image", shape=[None, 2, 8, 8], dtype="float32")
    mask = fluid.data(name="mask", shape=[None, 8, 8, 1], dtype="int64")
    encoded = conv_bn(fluid, image, 4, 3)
    down = fluid.layers.pool2d(encoded, pool_size=2, pool_stride=2)
    up = fluid.layers.conv2d_transpose(down, num_filters=4, filter_size=2, stride=2)
    bilinear = fluid.layers.resize_bilinear(down, out_shape=[8, 8])
    nearest = fluid.layers.resize_nearest(down, scale=2.0)
    corner = fluid.layers.resize_bilinear(down, out_shape=[8, 8], align_corners=False, align_mode=0)
    joined = fluid.layers.concat([encoded, up, bilinear, nearest, corner], axis=1)
    logits = fluid.layers.conv2d(joined, num_filters=3, filter_size=1)
    logits = fluid.layers.transpose(logits, [0, 2, 3, 1])
    loss = fluid.layers.softmax_with_cross_entropy(logits, mask, ignore_index=255)
    loss = fluid.layers.mean(loss)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    return train(fluid, {"image": floats(2, 2, 8, 8), "mask": ids(2, 8, 8, 1, below=3)}, loss, logits)
