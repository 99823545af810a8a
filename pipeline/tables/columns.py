"""What the second axes of arrays are called, and what names an entry of them."""

# An array that rides along with a frame -> the name of the table that labels its second axis.
AXES = {"calls": "samples", "alt_dosages": "samples", "dosages": "variants"}
# The column that names an entry of such an axis.
AXIS_IDS = {"samples": "sample_id", "variants": "variant_id"}
