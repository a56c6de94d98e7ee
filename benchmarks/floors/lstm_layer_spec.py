from lstm_spec import make  # the same network, written with `layers.lstm`
