"""Layers that hold layers or parameters in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fluidlite.paddle.nn.layer.base import Layer

__all__ = ["LayerDict", "LayerList", "ParameterList", "Sequential"]


class Sequential(Layer):
    """Layers that are called one after another; given as layers, or as pairs of a name and a layer."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        given = layers[0] if len(layers) == 1 and isinstance(layers[0], list) else layers
        for place, layer in enumerate(given):
            name, inside = layer if isinstance(layer, tuple) else (str(place), layer)
            self.add_sublayer(name, inside)

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, slice):
            return type(self)(*list(self._sub_layers.values())[name])
        if isinstance(name, str):
            return self._sub_layers[name]
        return list(self._sub_layers.values())[name]

    def __setitem__(self, name: Any, layer: Layer) -> None:
        self.add_sublayer(str(name), layer)

    def __delitem__(self, name: Any) -> None:
        del self._sub_layers[str(name)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def forward(self, input: Any) -> Any:
        """The result of the last layer."""
        for layer in self._sub_layers.values():
            assert layer is not None
            input = layer(input)
        return input


class LayerList(Layer):
    """A list of layers."""

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or [])

    def _put(self, layers: Iterable[Layer]) -> None:
        self._sub_layers.clear()
        for place, layer in enumerate(layers):
            self.add_sublayer(str(place), layer)

    def _layers(self) -> list[Any]:
        return list(self._sub_layers.values())

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(self._layers()[idx])
        return self._layers()[idx]

    def __setitem__(self, idx: int, sublayer: Layer) -> None:
        layers = self._layers()
        layers[idx] = sublayer
        self._put(layers)

    def __delitem__(self, idx: Any) -> None:
        layers = self._layers()
        del layers[idx]
        self._put(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._layers())

    def append(self, sublayer: Layer) -> LayerList:
        """Add a layer at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """Add a layer before the one at `index`."""
        layers = self._layers()
        layers.insert(index, sublayer)
        self._put(layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        """Add layers at the end."""
        for layer in sublayers:
            self.append(layer)
        return self


class LayerDict(Layer):
    """Layers by name."""

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        self.update(sublayers or {})

    def __getitem__(self, key: str) -> Any:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Take all layers away."""
        self._sub_layers.clear()

    def pop(self, key: str) -> Any:
        """Take a layer away and give it back."""
        return self._sub_layers.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._sub_layers.keys()

    def items(self) -> Any:
        """Names and layers."""
        return self._sub_layers.items()

    def values(self) -> Any:
        """The layers."""
        return self._sub_layers.values()

    def update(self, sublayers: Mapping[str, Layer] | Iterable[tuple[str, Layer]]) -> None:
        """Add layers, or put them in the place of those of the same name."""
        for key, layer in dict(sublayers).items():
            self.add_sublayer(key, layer)


class ParameterList(Layer):
    """A list of parameters."""

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for parameter in parameters or []:
            self.append(parameter)

    def __getitem__(self, idx: int) -> Any:
        return list(self._parameters.values())[idx]

    def __setitem__(self, idx: int, param: Any) -> None:
        self._parameters[list(self._parameters)[idx]] = param

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def append(self, parameter: Any) -> ParameterList:
        """Add a parameter at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self
