//! The headers of a message.
//!
//! Reads nothing but them. Nothing goes by a header, so that one which cannot be read costs only itself.

use bytes::Bytes;
use rdkafka::message::Headers;

use crate::panics::caught;
use crate::record::Header;

/// The headers in their order. One whose name is no UTF-8, which other clients may write, is left out: the client's library panics at it.
pub fn headers(of: Option<&impl Headers>) -> Vec<Header> {
    let Some(headers) = of else { return Vec::new() };
    let header = |at| {
        let header = caught(|| headers.try_get(at)).ok().flatten()?;
        Some(Header { name: header.key.to_owned(), value: header.value.map(Bytes::copy_from_slice) })
    };
    (0..headers.count()).filter_map(header).collect()
}
