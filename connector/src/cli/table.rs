//! Columns of text under headings, cut to the width of a terminal.
//!
//! Never cuts what goes into a file or a pipe.

use std::borrow::Cow;

use console::{Alignment, measure_text_width, pad_str, truncate_str};

use super::terminal::Paint;

const GAP: usize = 2;

/// Lays rows out under their headings. The last column takes what is left of the width and is cut there; without a width nothing is cut.
pub(super) fn layout<const N: usize>(headings: [&str; N], rows: &[[String; N]], width: Option<usize>, paint: Paint) -> String {
    let mut widths = headings.map(measure_text_width);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(cell));
        }
    }
    let before: usize = widths.iter().take(N.saturating_sub(1)).map(|width| width + GAP).sum();
    // A last column of a few letters says nothing: on a very narrow terminal lines break instead.
    let last = width.map(|width| width.saturating_sub(before).max(20));
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            if at + 1 == N {
                line.push_str(&last.map_or(Cow::Borrowed(*cell), |last| truncate_str(cell, last, "…")));
            } else {
                line.push_str(&pad_str(cell, widths[at] + GAP, Alignment::Left, None));
            }
        }
        line.trim_end().to_owned()
    };
    let mut text = format!("{}\n", paint.bold(line(headings)));
    for row in rows {
        text.push_str(&line(row.each_ref().map(String::as_str)));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<[String; 3]> {
        vec![["1".into(), "東京".into(), "a reason that is rather long".into()], ["22".into(), "x".into(), String::new()]]
    }

    #[test]
    fn columns_stand_under_their_headings_whatever_the_script() {
        let text = layout(["ID", "NAME", "REASON"], &rows(), None, Paint(false));
        assert_eq!(text, "ID  NAME  REASON\n1   東京  a reason that is rather long\n22  x\n");
    }

    #[test]
    fn the_last_column_is_cut_to_the_terminal() {
        let text = layout(["ID", "NAME", "REASON"], &rows(), Some(30), Paint(false));
        assert_eq!(text.lines().nth(1), Some("1   東京  a reason that is ra…"));
        assert!(text.lines().all(|line| measure_text_width(line) <= 30), "{text}");
    }
}
