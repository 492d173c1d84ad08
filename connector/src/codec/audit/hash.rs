//! Hashes of a journal, and how one is made of two or many (QLDB developer guide, "Data verification"; AWS's public verifier samples).
//!
//! A hash that is not there is an empty one: it leaves the other as it is. Never makes the hash of a value: that is Ion Hash.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Bytes of a hash.
pub const LENGTH: usize = 32;

/// A hash as it is stated or computed: SHA-256, so 32 bytes, unless what states it is damaged; empty where a journal has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(Vec<u8>);

impl Hash {
    /// A hash of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its 32 bytes, where it has as many.
    pub fn whole(&self) -> Option<[u8; LENGTH]> {
        self.0.as_slice().try_into().ok()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.0))
    }
}

/// The SHA-256 of two hashes, the smaller one first, compared as signed bytes from the last byte to the first; of one that is empty, the other.
pub fn dot(a: &Hash, b: &Hash) -> Hash {
    if a.0.is_empty() || b.0.is_empty() {
        return if a.0.is_empty() { b.clone() } else { a.clone() };
    }
    let signed = |hash: &Hash| hash.0.iter().rev().map(|byte| *byte as i8).collect::<Vec<_>>();
    let (first, second) = if signed(a) <= signed(b) { (a, b) } else { (b, a) };
    Hash(Sha256::new().chain_update(&first.0).chain_update(&second.0).finalize().to_vec())
}

/// The root of a Merkle tree by [`dot`] over these leaves; an odd one out moves up as it is. Of no leaf it is empty.
pub fn merkle(leaves: impl IntoIterator<Item = Hash>) -> Hash {
    let mut level: Vec<Hash> = leaves.into_iter().collect();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| pair.get(1).map_or_else(|| pair[0].clone(), |second| dot(&pair[0], second))).collect();
    }
    level.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(text: &str) -> Hash {
        Hash::new(STANDARD.decode(text).unwrap())
    }

    #[test]
    fn the_hashes_of_a_block_of_the_documentations_shape_follow_from_each_other() {
        let entries = ["9Q+juSDQrmJmUfy31YIkDmLehugy9vZo0sP0QlMxnnU=", "z4COjjwsg1cQ842/kCWQ8YZfLwd+SV4RMHY0FQADT28="].map(stated);
        let root = merkle(entries);
        assert_eq!(root.to_string(), "6tp37TTzmK3KiDEo3bsmOgMyF3xcviOlzoT/DnHCPTw=");
        let block = dot(&root, &stated("ZbN1KHwxhIVPbH1c6Jk1SIuZzbwSde7RtSlHZDsLJNI="));
        assert_eq!(block.to_string(), "T5N9ZqLLzRKgFXImRq+C77RE+DbQQfWKtODVavVyHVk=");
    }

    #[test]
    fn an_empty_hash_leaves_the_other_as_it_is_and_the_order_does_not_matter() {
        let [a, b] = [7, 9].map(|byte| Hash::new([byte; LENGTH]));
        assert_eq!((dot(&a, &Hash::default()), dot(&Hash::default(), &a)), (a.clone(), a.clone()));
        assert_eq!(dot(&a, &b), dot(&b, &a));
        assert_eq!(merkle([]), Hash::default());
        assert_eq!(merkle([a.clone(), b.clone(), a.clone()]), dot(&dot(&a, &b), &a));
    }
}
