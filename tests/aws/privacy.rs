//! Letters on their way to queues and buckets: their content and the credentials are told at no level of the log, also not by the libraries
//! that send them.

use crate::aws::{REGION, emulator};
use crate::command::{Folder, revision};
use crate::commands::places;

/// What stands in every value, as it is and in Base64 from each of the three places in which that can begin.
const MARKS: [&str; 4] = ["quokkazz", "cXVva2then", "F1b2trYXp6", "xdW9ra2F6e"];
const SECRETS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment"),
    ("AWS_SESSION_TOKEN", "token-of-the-environment"),
];

#[test]
fn letters_and_credentials_are_told_at_no_level_of_the_log() {
    let Some(emulator) = emulator() else { return };
    let levels = [&[("REVSYNC_VERBOSE", "3")][..], &[("RUST_LOG", "debug")], &[("RUST_LOG", "trace"), ("LOG_SIGNABLE_BODY", "true")]];
    for level in levels {
        for place in places(emulator) {
            let folder = Folder::new();
            let at: Vec<&str> = place.iter().map(String::as_str).collect();
            let environment = [&SECRETS[..], &[("AWS_REGION", REGION)], level].concat();
            // One fits into a message, one goes into the bucket.
            let large = format!("{{Name:\"quokkazz\",Text:\"{}\"}}", "quokkazz ".repeat(3_000));
            let long = "x".repeat(600);
            folder.write("s.ion", revision("T", &long, 0, Some("{Name:\"quokkazz\"}")) + &revision("U", &long, 0, Some(&large)));
            let mut stored = 0;
            for command in [
                &["--json", "sync", "s.ion"][..],
                &["dead-letters", "list"],
                &["--json", "dead-letters", "list"],
                &["dead-letters", "replay", "--dry-run"],
                &["dead-letters", "replay"],
                &["check", "s.ion"],
            ] {
                let done = folder.revsync_with(&[command, &at].concat(), &environment, b"");
                assert!(done.exit < 2, "{command:?}: {done:?}");
                stored += done.out.matches("id_too_long").count();
                for secret in MARKS.iter().chain(SECRETS[1..].iter().map(|(_, secret)| secret)) {
                    for said in [&done.out, &done.err] {
                        let told = said.lines().find(|line| line.contains(*secret));
                        assert!(told.is_none(), "{command:?} at {level:?} tells {secret}: {told:?}");
                    }
                }
            }
            assert!(stored > 0, "there were letters");
        }
    }
}
