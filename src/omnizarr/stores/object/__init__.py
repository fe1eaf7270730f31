"""Object stores: S3 and compatible servers, Google Cloud Storage, Azure, through obstore."""
