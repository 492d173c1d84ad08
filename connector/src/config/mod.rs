//! The configuration: the file as it is written, the options that come before it, and what both come to.
//!
//! Plain data for a caller that builds the parts. Opens no source and no sink, and reads no environment but through the function it is
//! handed.

mod example;
mod file;
mod load;
mod parts;
mod places;
mod rules;
mod schema;
mod settings;
mod units;

pub use example::text as example;
pub use file::{
    Auth, CheckpointsSection, DeadLettersSection, DeliverySection, File, HttpSection, LogFormat, OnDataLoss, SinkSection, SourceSection,
    TableRule,
};
pub use load::{Environment, nearest, parse};
pub use places::{SinkUrl, SourceUrl};
pub use schema::text as schema;
pub use settings::{Checkpoints, DEFAULT_DEAD_LETTERS, DEFAULT_SINK, Delivery, Http, Overrides, Settings, Sink, Source};
pub use units::{ByteSize, Listen, Span, StartAt, TableKey};
