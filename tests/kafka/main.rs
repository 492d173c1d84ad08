//! Kafka.
