//! The command `revsync`: parse, build, run, exit code.

fn main() {}
