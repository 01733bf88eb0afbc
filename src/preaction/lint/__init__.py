"""What is wrong with a rules file: by itself, against the released description of its job, against the real tools.

Read in this order: `notes`, `alone`, `against_release`, `shapes`, `tools`, `against_tools`, `report`.
"""
