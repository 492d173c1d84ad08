use super::*;

/// What a table prints of these pages of rows; a cell that begins with a digit is a number.
fn printed(names: &[&str], screen: Option<usize>, pages: &[&[&[&str]]]) -> Vec<String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut table = Table::new(&names, screen, Paint(false));
    let mut out = Vec::new();
    for page in pages {
        for row in *page {
            table.row(row.iter().map(|cell| of(cell)), &mut out);
        }
        table.show(&mut out);
    }
    table.end(&mut out);
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn columns_stand_under_their_headings_whatever_the_script() {
    let lines = printed(&["ID", "NAME", "N"], None, &[&[&["a", "東京", "7"], &["bcd", "x", "100"]]]);
    assert_eq!(lines, ["ID   NAME    N", "a    東京    7", "bcd  x     100"]);
}

#[test]
fn a_table_without_rows_has_its_heading() {
    assert_eq!(printed(&["ID", "NAME"], None, &[]), ["ID  NAME"]);
    assert_eq!(printed(&["ID", "NAME"], None, &[&[], &[]]), ["ID  NAME"]);
}

#[test]
fn a_wider_cell_widens_its_column_from_there_on() {
    let lines = printed(&["A", "B"], None, &[&[&["x", "y"]], &[&["xxxx", "y"], &["x", "y"]]]);
    assert_eq!(lines, ["A  B", "x  y", "xxxx  y", "x     y"]);
}

#[test]
fn in_a_pipe_nothing_is_cut_and_a_long_cell_does_not_widen_all_others() {
    let long = "x".repeat(500);
    let lines = printed(&["A", "B"], None, &[&[&[&long, "y"], &["x", "y"]]]);
    assert_eq!(lines[1], format!("{long}  y"));
    assert_eq!(lines[2].len(), MOST + GAP + 1);
}

#[test]
fn on_a_terminal_every_line_fits() {
    let long = "東京".repeat(500);
    let pages: &[&[&[&str]]] = &[&[&["a", &long, "end"]], &[&["a", "short", &long], &[&long, &long, &long]]];
    let lines = printed(&["ID", "NAME", "NOTE"], Some(40), pages);
    assert!(lines.iter().all(|line| line.width() <= 40), "{lines:?}");
    assert_eq!(lines[1].matches('…').count(), 1);
    assert!(lines[1].starts_with("a         東京") && lines[1].ends_with("…   end"), "{lines:?}");
    assert!(lines[3].starts_with("東京東… ") && lines[3].matches('…').count() == 3, "{lines:?}");
}

#[test]
fn on_a_narrow_terminal_something_is_left_of_every_column() {
    let lines = printed(&["A", "B", "C"], Some(10), &[&[&["aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"]]]);
    assert_eq!(lines[1], "aaaaaaa…  bbbbbbb…  ccccccc…");
}

#[test]
fn a_document_cannot_drive_the_terminal() {
    let lines = printed(&["A\u{1b}[2J"], None, &[&[&["x\u{1b}[31m\r\ny\u{202e}"]]]);
    assert_eq!(lines, ["A\u{fffd}[2J", "x\u{fffd}[31m  y\u{fffd}"]);
}

#[test]
fn the_widths_are_chosen_before_too_much_waits() {
    let names = ["A".to_owned()];
    let mut table = Table::new(&names, None, Paint(false));
    let mut out = Vec::new();
    for _ in 0..FIRST_ROWS {
        assert!(out.is_empty());
        table.row([of("x")], &mut out);
    }
    assert_eq!(out.len(), 2 * (FIRST_ROWS + 1));
    let mut table = Table::new(&names, None, Paint(false));
    out.clear();
    table.row([of(&"x".repeat(FIRST_BYTES))], &mut out);
    assert_eq!(out.len(), 2 + FIRST_BYTES + 1);
}

fn of(cell: &str) -> (String, bool) {
    (cell.to_owned(), cell.starts_with(|c: char| c.is_ascii_digit()))
}
