"""What ops mean, by family; families are imported when one of their ops is first looked up
(fluidlite.base.registry).
"""
