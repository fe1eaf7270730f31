"""Pictures of arrays and images: in files, notebooks and terminals."""
