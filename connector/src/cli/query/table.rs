//! An aligned table of rows that are still being found.
//!
//! The rows that are there first say how wide a column is; a wider cell that comes later widens its column from there on. On a terminal a line
//! fits into its width, and what does not fit is cut; in a file or a pipe nothing is. Holds no more than the first rows.

use console::truncate_str;
use unicode_width::UnicodeWidthStr;

use crate::cli::terminal::{Paint, clean};

const GAP: usize = 2;

/// The least that is left of a column on a narrow terminal; on a narrower one lines break.
const LEAST: usize = 8;

/// The most that a cell in a pipe widens its column: what is wider stands out of it.
const MOST: usize = 48;

/// Rows and bytes that are waited for before the widths are chosen.
const FIRST_ROWS: usize = 1_000;
const FIRST_BYTES: usize = 256 * 1024;

/// The table.
pub(super) struct Table {
    names: Vec<String>,
    /// Columns of the terminal.
    screen: Option<usize>,
    paint: Paint,
    columns: Vec<Column>,
    /// Rows that wait for the widths; `None` once these are chosen.
    waiting: Option<Vec<Vec<Cell>>>,
    waiting_bytes: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    width: usize,
    /// Numbers stand to the right.
    right: bool,
}

struct Cell {
    text: String,
    width: usize,
    is_number: bool,
}

impl Cell {
    fn new(text: String, is_number: bool) -> Self {
        Self { width: text.width(), text, is_number }
    }
}

impl Table {
    /// A table with these columns, on a terminal that is so wide or elsewhere.
    pub(super) fn new(names: &[String], screen: Option<usize>, paint: Paint) -> Self {
        Self {
            names: names.iter().map(|name| clean(name)).collect(),
            screen,
            paint,
            columns: Vec::new(),
            waiting: Some(Vec::new()),
            waiting_bytes: 0,
        }
    }

    /// Takes a row: the text of each cell, and whether it is a number.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, bool)>, out: &mut Vec<u8>) {
        let row: Vec<Cell> = cells.into_iter().map(|(text, is_number)| Cell::new(self.shown(&text), is_number)).collect();
        let Some(waiting) = &mut self.waiting else { return self.line(&row, out) };
        self.waiting_bytes += row.iter().map(|cell| cell.text.len()).sum::<usize>();
        waiting.push(row);
        if waiting.len() >= FIRST_ROWS || self.waiting_bytes >= FIRST_BYTES {
            self.begin(out);
        }
    }

    /// Writes what waits; nothing where nothing does.
    pub(super) fn show(&mut self, out: &mut Vec<u8>) {
        if self.waiting.as_ref().is_some_and(|rows| !rows.is_empty()) {
            self.begin(out);
        }
    }

    /// Writes the heading, if there was no row before which it had to be.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        if self.waiting.is_some() {
            self.begin(out);
        }
    }

    /// A text as it may be printed; of one that is far too long for the terminal no more than a beginning.
    fn shown(&self, text: &str) -> String {
        // A character takes a column or two, or none where it goes with the one before it.
        const CHARACTERS: usize = 8;
        match self.screen.and_then(|screen| text.char_indices().nth(screen.max(LEAST) * CHARACTERS)) {
            Some((end, _)) => clean(&text[..end]),
            None => clean(text),
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        let rows = self.waiting.take().unwrap_or_default();
        let most = if self.screen.is_some() { usize::MAX } else { MOST };
        self.columns = (0..self.names.len())
            .map(|at| {
                let cells = || rows.iter().map(|row| &row[at]).filter(|cell| !cell.text.is_empty());
                let width = cells().map(|cell| cell.width.min(most)).max().unwrap_or_default();
                Column {
                    width: width.max(self.names[at].width()),
                    right: rows.iter().any(|row| row[at].is_number) && cells().all(|cell| cell.is_number),
                }
            })
            .collect();
        if let Some(screen) = self.screen {
            fit(&mut self.columns, screen);
        }
        let heading: Vec<Cell> = self.names.iter().map(|name| Cell::new(name.clone(), false)).collect();
        let mut line = Vec::new();
        self.line(&heading, &mut line);
        let line = String::from_utf8_lossy(&line);
        out.extend_from_slice(format!("{}\n", self.paint.bold(line.trim_end())).as_bytes());
        for row in rows {
            self.line(&row, out);
        }
    }

    fn line(&mut self, row: &[Cell], out: &mut Vec<u8>) {
        self.widen(row);
        let begin = out.len();
        for (at, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
            if at > 0 {
                out.extend_from_slice(&[b' '; GAP]);
            }
            let cut = self.screen.is_some() && cell.width > column.width;
            let text = if cut { truncate_str(&cell.text, column.width, "…") } else { cell.text.as_str().into() };
            let padding = column.width.saturating_sub(if cut { text.width() } else { cell.width });
            let (before, behind) = if column.right { (padding, 0) } else { (0, padding) };
            out.resize(out.len() + before, b' ');
            out.extend_from_slice(text.as_bytes());
            out.resize(out.len() + behind, b' ');
        }
        while out.len() > begin && out.last() == Some(&b' ') {
            out.pop();
        }
        out.push(b'\n');
    }

    /// Makes columns as wide as the cells of a row, as far as there is room.
    fn widen(&mut self, row: &[Cell]) {
        let mut room = match self.screen {
            Some(screen) => screen.saturating_sub(taken(&self.columns)),
            None => usize::MAX,
        };
        for (column, cell) in self.columns.iter_mut().zip(row) {
            let wanted = if self.screen.is_some() { cell.width } else { cell.width.min(MOST) };
            let more = wanted.saturating_sub(column.width).min(room);
            column.width += more;
            room -= more;
        }
    }
}

/// Columns of the terminal that a line takes.
fn taken(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}

/// Takes from the widest columns until a line fits. Then no room is left to widen one later, so that each gets its least now.
fn fit(columns: &mut [Column], screen: usize) {
    if taken(columns) <= screen {
        return;
    }
    columns.iter_mut().for_each(|column| column.width = column.width.max(LEAST));
    let mut widths: Vec<usize> = columns.iter().map(|column| column.width).collect();
    widths.sort_unstable();
    let mut room = screen.saturating_sub(GAP * columns.len().saturating_sub(1));
    let mut limit = usize::MAX;
    for (at, width) in widths.iter().enumerate() {
        let share = room / (widths.len() - at);
        if *width > share {
            limit = share.max(LEAST);
            break;
        }
        room -= width;
    }
    columns.iter_mut().for_each(|column| column.width = column.width.min(limit));
}

#[cfg(test)]
mod tests;
