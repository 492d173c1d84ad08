//! The language of conditions and expressions: read once, evaluated on every row.

mod arithmetic;
mod call;
pub(super) mod compile;
pub(super) mod condition;
mod convert;
pub(super) mod expression;
pub(super) mod extract;
pub(super) mod facts;
pub(super) mod functions;
pub(super) mod grammar;
pub(super) mod instant;
mod interval;
mod like;
pub(super) mod number;
pub(super) mod problem;
mod set;
mod text;
pub(super) mod tokens;
pub(super) mod value;
