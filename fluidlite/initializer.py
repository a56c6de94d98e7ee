class Initializer: pass
