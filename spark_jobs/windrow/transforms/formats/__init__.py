"""Records in formats other than JSON: the frame of a schema registry, Avro, Protobuf, and values as columns."""
