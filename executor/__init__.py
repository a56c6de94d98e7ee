"""Program -> results: plans, arrays, devices, communicators."""
