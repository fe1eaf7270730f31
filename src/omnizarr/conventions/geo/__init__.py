"""Maps: coordinate reference systems, affine transforms and pyramids."""
