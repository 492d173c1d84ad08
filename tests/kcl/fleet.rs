//! Two real MultiLangDaemons on one stream: one as the README says it, and one as the image of infra/kcl starts it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::aws::{Emulator, emulator};
use crate::command::Folder;
use crate::kinesis::{Listed, Stream, kinesis};
use crate::multilang::{MultiLang, jars};
use crate::qldb_stream::{Does, binary, put, revision};
use crate::services::{Node, nodes};

/// More than anything here takes; the leader waits for up to 30 seconds before it makes the first leases.
const PATIENCE: Duration = Duration::from_secs(150);
/// The lease table, as the README names it.
const APPLICATION: &str = "ledger";

/// What makes the daemon quick, and sends it to the emulators. KCL 3 balances leases by the load of the machines, of which there is one here, and
/// so moves none; as KCL 2 it balances their number.
fn for_tests(kinesis: &Emulator, aws: &Emulator, worker: &str) -> String {
    let (kinesis, aws) = (kinesis.url(), aws.url());
    format!(
        "kinesisEndpoint = {kinesis}\ndynamoDBEndpoint = {aws}\ncloudwatchEndpoint = {aws}\nworkerIdentifier = {worker}\nmetricsLevel = NONE\n\
         failoverTimeMillis = 3000\nclientVersionConfig = CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X\nshardSyncIntervalMillis = 1000\nparentShardPollIntervalMillis = 500\n\
         idleTimeBetweenReadsInMillis = 250\n"
    )
}

/// The last block of this kind in the README's section on fleets.
fn documented(language: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let section = readme.split("\n## ").find(|section| section.starts_with("A fleet on the Kinesis Client Library\n")).unwrap();
    section.split(&format!("```{language}\n")).skip(1).map(|rest| rest.split("```").next().unwrap()).last().unwrap().to_owned()
}

/// A fleet's stream, index and tables, and what should be in the index.
struct Fleet {
    folder: Folder,
    stream: Stream,
    kinesis: &'static Emulator,
    aws: &'static Emulator,
    opensearch: Emulator,
    jars: PathBuf,
    /// The next version of each document.
    next: BTreeMap<String, u64>,
    expected: BTreeMap<String, (u64, Value)>,
}

/// A lease, as the daemons keep it.
#[derive(Debug)]
struct Lease {
    shard: String,
    owner: Option<String>,
    checkpoint: String,
}

impl Fleet {
    /// A daemon as the README starts it.
    fn by_the_readme(&self, worker: &str) -> MultiLang {
        let properties = documented("properties").replace("streamName = ledger\n", &format!("streamName = {}\n", self.stream.name));
        assert!(properties.contains(&format!("applicationName = {APPLICATION}\n")) && properties.contains("regionName = eu-west-1\n"));
        self.folder.write("kcl.properties", properties + &for_tests(self.kinesis, self.aws, worker));
        let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/kcl").canonicalize().unwrap();
        let line = documented("sh").replace("/opt/kcl/jars/*", &format!("{}/*", self.jars.display()));
        let line = line.replace("/opt/kcl/logback.xml", recipes.join("logback.xml").to_str().unwrap());
        assert!(!line.contains("/opt/"), "{line}");
        let line = line.replace("java ", "exec java -Daws.cborEnabled=false ");
        let environment = [("CBOR_ENABLED", "false"), ("JAVA_TOOL_OPTIONS", "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")];
        MultiLang::start(&["sh", "-c", &line], self.folder.path(), worker, &environment)
    }

    /// A daemon as the image starts it.
    fn by_the_image(&self, worker: &str) -> MultiLang {
        let home = self.folder.path().join("kcl");
        if !home.exists() {
            let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/kcl");
            fs::create_dir(&home).unwrap();
            for file in ["start", "logback.xml"] {
                fs::copy(recipes.join(file), home.join(file)).unwrap();
            }
            symlink(&self.jars, home.join("jars")).unwrap();
        }
        let (stream, more) = (self.stream.arn(), for_tests(self.kinesis, self.aws, worker));
        let environment = [
            ("KCL_STREAM_ARN", stream.as_str()),
            ("KCL_APPLICATION", APPLICATION),
            ("KCL_METRICS", "NONE"),
            ("KCL_PROPERTIES", &more),
            ("KCL_JAVA", "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Daws.cborEnabled=false"),
            ("CBOR_ENABLED", "false"),
            ("REVSYNC_CONFIG", "revsync.toml"),
        ];
        MultiLang::start(&["kcl/start"], self.folder.path(), worker, &environment)
    }

    /// Puts the next revisions of these documents into a shard, in their order; gives the sequence number of the last.
    fn write(&mut self, shard: &Listed, ids: impl Iterator<Item = usize>) -> String {
        let mut records = Vec::new();
        for id in ids.map(|id| id.to_string()) {
            let next = self.next.entry(id.clone()).or_default();
            let (version, note) = (*next, format!("{id} at {next}"));
            *next += 1;
            let does = if version % 5 == 4 { Does::Delete } else { put(&note) };
            records.push(binary(&[revision("Ledger", &id, version, &does)]).to_vec());
            if does == Does::Delete {
                self.expected.remove(&id);
            } else {
                self.expected.insert(id, (version, json!({ "note": note })));
            }
        }
        let last = records.pop().unwrap();
        self.stream.put_all(shard, &records);
        self.stream.put(shard, &last)
    }

    /// What a search shows: id to version and source.
    fn documents(&self) -> BTreeMap<String, (u64, Value)> {
        self.opensearch.request("POST", "/ledger/_refresh", &[], b"");
        let (status, found) = self.opensearch.request("GET", "/ledger/_search?version=true&size=10000", &[], b"");
        // It is not there yet, or not ready.
        if status != 200 {
            return BTreeMap::new();
        }
        let found: Value = serde_json::from_slice(&found).unwrap();
        if found["_shards"]["failed"] != 0 || found["_shards"]["successful"] == 0 {
            return BTreeMap::new();
        }
        let hit = |hit: &Value| (hit["_id"].as_str().unwrap().to_owned(), (hit["_version"].as_u64().unwrap(), hit["_source"].clone()));
        found["hits"]["hits"].as_array().unwrap().iter().map(hit).collect()
    }

    /// The items of a table of the fleet's; none where it is not there yet.
    fn table(&self, name: &str) -> Vec<Value> {
        let headers = [("X-Amz-Target", "DynamoDB_20120810.Scan".to_owned()), ("Content-Type", "application/x-amz-json-1.0".to_owned())];
        let (status, found) = self.aws.request("POST", "/", &headers, json!({ "TableName": name }).to_string().as_bytes());
        let found: Value = if status == 200 { serde_json::from_slice(&found).unwrap() } else { json!({ "Items": [] }) };
        found["Items"].as_array().unwrap().clone()
    }

    fn leases(&self) -> Vec<Lease> {
        let text = |item: &Value, name: &str| item[name]["S"].as_str().map(str::to_owned);
        let lease = |item: Value| {
            let is_lease = text(&item, "entityType").is_none_or(|kind| kind == "LEASE");
            let (shard, checkpoint) = (text(&item, "leaseKey")?, text(&item, "checkpoint")?);
            is_lease.then(|| Lease { shard, owner: text(&item, "leaseOwner"), checkpoint })
        };
        self.table(APPLICATION).into_iter().filter_map(lease).collect()
    }

    /// Waits until the index is what it should be.
    fn is_in_the_index(&self, daemons: &[&MultiLang]) {
        let expected = &self.expected;
        self.wait("the index to be the fold of the stream", daemons, || {
            let found = self.documents();
            if found == *expected { Ok(()) } else { Err(format!("{} of {} documents", found.len(), expected.len())) }
        });
    }

    /// Looks again until it is so, and says how it is if it does not come to that.
    fn wait<T>(&self, what: &str, daemons: &[&MultiLang], mut look: impl FnMut() -> Result<T, String>) -> T {
        let began = Instant::now();
        loop {
            match look() {
                Ok(found) => {
                    println!("{:.1} s for {what}", began.elapsed().as_secs_f64());
                    return found;
                }
                Err(how) => {
                    if began.elapsed() > PATIENCE {
                        let logs: String = daemons.iter().map(|daemon| daemon.last_words() + "\n\n").collect();
                        panic!("waited in vain for {what}: {how}; {:?}\n{logs}", self.leases());
                    }
                }
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// Waits until each of these workers has as many of the open shards as it says.
    fn share(&self, shares: &[(&str, usize)], daemons: &[&MultiLang]) -> Vec<Lease> {
        self.wait(&format!("leases to be shared as {shares:?}"), daemons, || {
            let leases = self.leases();
            let open = |worker: &str| {
                leases.iter().filter(|lease| lease.checkpoint != "SHARD_END" && lease.owner.as_deref() == Some(worker)).count()
            };
            if shares.iter().all(|(worker, share)| open(worker) == *share) { Ok(leases) } else { Err(format!("{leases:?}")) }
        })
    }
}

/// A server of the newest release, and what has to be kept for as long as it should live.
fn opensearch() -> (Emulator, Option<Node>) {
    if let Ok(url) = std::env::var("OPENSEARCH_URL") {
        return (Emulator::at(url.trim_end_matches('/')), None);
    }
    let mut node = nodes().pop().unwrap();
    (Emulator::at(&node.start().url), Some(node))
}

#[test]
fn a_fleet_shares_the_shards_goes_through_a_split_and_a_kill_and_the_index_is_the_fold_of_the_stream() {
    let (Some(kinesis), Some(aws)) = (kinesis(), emulator()) else { return };
    let (opensearch, _node) = opensearch();
    // One that is used by others too may have an index of an earlier run.
    opensearch.request("DELETE", "/ledger-000001", &[], b"");
    let folder = Folder::new();
    let sink = format!("[sink]\nurl = \"{}\"\n", opensearch.url());
    folder.write(
        "revsync.toml",
        format!(
            "name = \"ledger\"\n{sink}[dead_letters]\nurl = \"file:letters.jsonl\"\n[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n"
        ),
    );
    let stream = Stream::make(kinesis, "ledger", 2);
    let mut fleet = Fleet { folder, stream, kinesis, aws, opensearch, jars: jars(), next: BTreeMap::new(), expected: BTreeMap::new() };

    // One daemon has all shards, and two have one each.
    let shards = fleet.stream.open();
    for _ in 0..3 {
        fleet.write(&shards[0], 0..60);
        fleet.write(&shards[1], 60..120);
    }
    let first = fleet.by_the_readme("first");
    fleet.is_in_the_index(&[&first]);
    let second = fleet.by_the_image("second");
    let leases = fleet.share(&[("first", 1), ("second", 1)], &[&first, &second]);

    // The shard of the one that is killed later is split while it is written to.
    let of_second = leases.iter().find(|lease| lease.owner.as_deref() == Some("second")).unwrap().shard.clone();
    let parent = shards.iter().find(|shard| shard.id == of_second).unwrap();
    let (ids, others) = if parent.id == shards[0].id { (0..60, 60..120) } else { (60..120, 0..60) };
    let other = shards.iter().find(|shard| shard.id != of_second).unwrap();
    fleet.write(parent, ids.clone());
    fleet.stream.split(parent);
    let children: Vec<Listed> = fleet.stream.open().into_iter().filter(|shard| shard.id != other.id).collect();
    for _ in 0..2 {
        // Each document goes on in one of them.
        fleet.write(&children[0], ids.clone().step_by(2));
        fleet.write(&children[1], ids.clone().skip(1).step_by(2));
        fleet.write(other, others.clone());
    }
    fleet.is_in_the_index(&[&first, &second]);
    fleet.wait("the end of the parent", &[&first, &second], || {
        let leases = fleet.leases();
        let ended = leases.iter().all(|lease| lease.shard != parent.id || lease.checkpoint == "SHARD_END");
        if ended && leases.iter().any(|lease| lease.shard == children[1].id) { Ok(()) } else { Err("it has none".to_owned()) }
    });

    // One is killed while it has work, and the other goes on behind what it had checkpointed.
    let open: Vec<Listed> = children.into_iter().chain([other.clone()]).collect();
    let taken_over = fleet.wait("checkpoints of all shards, one of them by the second", &[&first, &second], || {
        let leases = fleet.leases();
        let checkpoint = |shard: &Listed| leases.iter().find(|lease| lease.shard == shard.id && lease.checkpoint.starts_with("49"));
        let of_open: Option<Vec<&Lease>> = open.iter().map(checkpoint).collect();
        let of_second = of_open.and_then(|all| all.into_iter().find(|lease| lease.owner.as_deref() == Some("second")));
        of_second.map(|lease| lease.shard.clone()).ok_or_else(|| format!("{leases:?}"))
    });
    open.iter().for_each(|shard| drop(fleet.write(shard, 200..260)));
    second.kill();
    open.iter().for_each(|shard| drop(fleet.write(shard, 260..300)));
    fleet.share(&[("first", 3)], &[&first]);
    fleet.is_in_the_index(&[&first]);
    fleet.wait("the one that goes on to say from where", &[&first], || {
        let says = first.log().contains(&format!("{taken_over}: begins after 49"));
        if says { Ok(()) } else { Err("it does not".to_owned()) }
    });

    // The other one is told to stop; what it had is checkpointed to the last record.
    let last: Vec<(&str, String)> = open.iter().zip(300..).map(|(shard, id)| (shard.id.as_str(), fleet.write(shard, id..=id))).collect();
    fleet.is_in_the_index(&[&first]);
    first.terminate();
    let leases = fleet.leases();
    for (shard, number) in last {
        let lease = leases.iter().find(|lease| lease.shard == shard).unwrap();
        assert_eq!(lease.checkpoint, number, "{shard}: {leases:?}");
    }
    assert_eq!(fs::metadata(fleet.folder.path().join("letters.jsonl")).map_or(0, |file| file.len()), 0, "dead letters were written");
}
