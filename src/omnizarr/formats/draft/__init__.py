"""The 2022 draft of version 3: its metadata, data types and extension points."""
