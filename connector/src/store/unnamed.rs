//! A private database without a name: in memory up to a bound, and beyond it in a file of the system's folder for temporary ones, which is gone with the
//! process. Nothing of it survives.

use rusqlite::{Connection, ErrorCode};

use crate::error::{Error, Kind};

/// An empty one with these tables, which holds at most about so many bytes in memory, and the rest in the folder that `SQLITE_TMPDIR`, else `TMPDIR`
/// names.
pub(super) fn open(memory: usize, schema: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open("")?;
    // Nothing of it has to survive: no journal, and no waiting for the disk.
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -{};",
        (memory / 1024).max(1024)
    ))?;
    connection.execute_batch(schema)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// What went wrong; `room` says how much of it is taken. SQLite's texts never hold a value.
pub(super) fn error(cause: &rusqlite::Error, room: &str) -> Error {
    let failed = Error::new(Kind::Usage, format!("the temporary database cannot be used: {cause}"));
    match cause.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            failed.help(format!("it takes {room}, in the folder that TMPDIR names; name another one"))
        }
        _ => failed,
    }
}
