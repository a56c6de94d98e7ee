"""Variables, states and models as files; `fluidlite.io` is the door."""
