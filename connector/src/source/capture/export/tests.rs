use super::*;

fn started(path: &str) -> Manifest {
    Manifest { path: path.to_owned(), about: names::about(path).unwrap(), content: Ok(Vec::new()) }
}

fn completed(path: &str, keys: &[&str]) -> Manifest {
    Manifest { content: Ok(serde_json::json!({ "keys": keys }).to_string().into()), ..started(path) }
}

fn plan(paths: &[&str], manifests: &[Manifest]) -> (Vec<String>, Vec<String>, bool) {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let plan = Plan::new(&paths, manifests);
    (plan.order.iter().map(|at| paths[*at].clone()).collect(), plan.notes, plan.is_incomplete)
}

const KEYS: [&str; 3] =
    ["my.ledger/x/2020/03/01/08/s.8-10.ion", "my.ledger/x/2020/03/01/09/s.0-7.ion", "my.ledger/x/2020/03/01/10/s.11-11.ion"];

#[test]
fn files_are_read_in_the_order_of_their_manifest_whatever_of_the_bucket_was_copied() {
    for cut in ["", "my.ledger/", "my.ledger/x/", "my.ledger/x/2020/03/"] {
        for below in ["", "copy/of a/bucket/"] {
            let paths: Vec<String> = KEYS.iter().map(|key| format!("{below}{}", &key[cut.len()..])).collect();
            let sorted = {
                let mut sorted: Vec<&str> = paths.iter().map(String::as_str).collect();
                sorted.push("other/capture.ion");
                sorted.sort_unstable();
                sorted
            };
            let manifest = [started("e.started.manifest"), completed("e.s.completed.manifest", &KEYS)];
            assert_eq!(plan(&sorted, &manifest), (paths, vec![], false), "{cut} {below}");
        }
    }
    let flat = ["s.0-7.ion.gz", "s.11-11.ion", "s.8-10.ion"];
    assert_eq!(plan(&flat, &[completed("e.s.completed.manifest", &KEYS)]).0, ["s.8-10.ion", "s.0-7.ion.gz", "s.11-11.ion"]);
}

#[test]
fn two_exports_of_the_same_names_have_each_its_own_files() {
    let keys = ["p/2020/01/01/00/s.0-7.ion"];
    let paths = ["one/2020/01/01/00/s.0-7.ion", "two/2020/01/01/00/s.0-7.ion"];
    let manifests = [completed("two/b.s.completed.manifest", &keys), completed("one/a.s.completed.manifest", &keys)];
    let (order, notes, is_incomplete) = plan(&paths, &manifests);
    assert_eq!((order, is_incomplete), (vec![paths[1].to_owned(), paths[0].to_owned()], false));
    assert_eq!(notes, ["exports b and a of strand s overlap: both hold the blocks 0 to 7, which does no harm"]);
    // A second export into the same prefix.
    let (order, _, is_incomplete) = plan(&paths[..1], &manifests);
    assert_eq!((order, is_incomplete), (vec![paths[0].to_owned()], false));
}

#[test]
fn what_is_missing_is_said_and_leaves_the_scan_unproven() {
    let (order, notes, is_incomplete) = plan(&["2020/03/01/09/s.0-7.ion"], &[completed("e.s.completed.manifest", &KEYS)]);
    assert_eq!((order.len(), is_incomplete), (1, true));
    let expected =
        "export e: 2 of the 3 files that e.s.completed.manifest names are not here, the first is my.ledger/x/2020/03/01/08/s.8-10.ion";
    assert_eq!(notes, [expected]);

    let (_, notes, is_incomplete) = plan(&["s.0-7.ion"], &[started("p/e.started.manifest")]);
    assert!(is_incomplete && notes[0].starts_with("export e: it was started, and there is no completed manifest"), "{notes:?}");

    let unreadable = Manifest { content: Ok(b"{keys".to_vec()), ..started("p/e.s.completed.manifest") };
    let (_, notes, is_incomplete) = plan(&["s.0-7.ion"], &[unreadable]);
    assert!(is_incomplete && notes[0].starts_with("the manifest p/e.s.completed.manifest says nothing: expected"), "{notes:?}");

    let (_, notes, is_incomplete) =
        plan(&["s.0-7.ion", "s.9-10.ion"], &[completed("e.s.completed.manifest", &["s.0-7.ion", "s.9-10.ion"])]);
    assert_eq!((notes, is_incomplete), (vec!["export e: no file holds the blocks 8 to 8 of strand s".to_owned()], true));
}

#[test]
fn files_that_no_manifest_names_are_said_and_read() {
    let (order, notes, is_incomplete) = plan(&["s.0-7.ion", "s.8-9.ion", "x.ion"], &[completed("e.s.completed.manifest", &["s.0-7.ion"])]);
    assert_eq!((order, is_incomplete), (vec!["s.0-7.ion".to_owned()], false));
    assert_eq!(notes, ["1 files of blocks are named by no manifest, and are read too, the first is s.8-9.ion"]);
    assert_eq!(plan(&["s.0-7.ion", "s.9-10.ion"], &[]), (vec![], vec![], false));
}

#[test]
fn it_is_said_how_exports_of_one_strand_lie_to_one_another() {
    let highest = format!("s.20-{}.ion", u64::MAX);
    let paths = ["s.0-7.ion", "s.8-10.ion", "s.9-15.ion", &highest];
    let manifests =
        [("d", 3), ("b", 1), ("c", 2), ("a", 0)].map(|(export, at)| completed(&format!("{export}.s.completed.manifest"), &[paths[at]]));
    let (order, notes, is_incomplete) = plan(&paths, &manifests);
    assert_eq!((order, is_incomplete), (paths.map(str::to_owned).to_vec(), false));
    assert_eq!(
        notes,
        [
            "export b of strand s goes on where export a ends, at block 8",
            "exports b and c of strand s overlap: both hold the blocks 9 to 10, which does no harm",
            "exports c and d of strand s leave a gap: the blocks 16 to 19 are in neither",
        ]
    );
}
