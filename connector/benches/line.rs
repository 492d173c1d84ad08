//! The pure part of the line: records of a ledger's stream to documents, and on to the body of a bulk request. Figures: `README.md` beside this.
#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ion_rs::v1_0::Binary;
use ion_rs::{Element, Reader, ValueRef};
use revsync::codec::{self, Content, Decoder};
use revsync::error::Error;
use revsync::metrics::Notes;
use revsync::operation::Operation;
use revsync::plan::mapping::{Mapping, Plan, Planned};
use revsync::plan::query::{Query, Value};
use revsync::record::{Origin, Position, Record};
use revsync::run::query::{Evaluation, Rows, Scanned, decoder};
use revsync::sink::opensearch::request::Portions;

const REVISIONS: usize = 1_000;

/// Three of ten revisions have a block summary between them and the one before, as transactions write three revisions on the average.
const SUMMARIES: usize = 300;

/// Deterministic numbers, so that every run measures the same bytes.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    fn id(&mut self) -> String {
        (0..22).map(|_| char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[self.below(62) as usize])).collect()
    }

    /// A hash in Base64.
    fn hash(&mut self) -> String {
        format!("{}{}A=", self.id(), &self.id()[..20])
    }
}

const WORDS: [&str; 16] = [
    "inspection",
    "renewal",
    "transfer",
    "owner",
    "notice",
    "payment",
    "pending",
    "address",
    "verified",
    "vehicle",
    "plate",
    "registered",
    "county",
    "officer",
    "waived",
    "Łódź",
];

fn data(some: &mut Sequence) -> String {
    let notes = 40 + some.below(16);
    let notes = (0..notes).map(|_| some.one_of(&WORDS)).collect::<Vec<_>>().join(" ");
    format!(
        "{{VIN:\"{}\",LicensePlateNumber:\"ABC{}\",State:\"{}\",PendingPenaltyTicketAmount:{}.{:02},ValidFromDate:2017-08-{:02},\
         ValidToDate:2027-01-{:02},Owners:{{PrimaryOwner:{{PersonId:\"{}\"}},SecondaryOwners:[]}},Email:\"{}@example.com\",\
         Address:{{Street:\"{} Main Ave\",City:\"{}\",Zip:\"98{:03}\",Geo:{{Lat:47.{:04},Lon:-122.{:04}}}}},Active:{},Score:{},\
         Tags:[\"{}\",\"{}\",\"{}\"],Notes:\"{}\",UpdatedAt:2024-05-{:02}T10:11:12.{:03}Z,Height:{}.5e0,Phone:null}}",
        &some.id()[..17],
        1000 + some.below(9000),
        some.one_of(&["WA", "OR", "CA"]),
        some.below(500),
        some.below(100),
        1 + some.below(28),
        1 + some.below(28),
        some.id(),
        some.one_of(&WORDS[..15]),
        some.below(9999),
        some.one_of(&["Seattle", "Tacoma", "Kent"]),
        some.below(1000),
        some.below(10_000),
        some.below(10_000),
        some.below(10) < 8,
        some.below(1000),
        some.one_of(&WORDS),
        some.one_of(&WORDS),
        some.one_of(&WORDS),
        notes,
        1 + some.below(28),
        some.below(1000),
        150 + some.below(50),
    )
}

const ARN: &str = "arn:aws:qldb:us-east-1:000000000000:stream/vehicle-registration/5tQm0aVxkLs7WnYb2Re8dH";

fn revision(some: &mut Sequence) -> String {
    let (hash, data) = (some.hash(), data(some));
    format!(
        "{{qldbStreamArn:\"{ARN}\",recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"VehicleRegistration\",tableId:\"{}\"}},\
         revision:{{blockAddress:{{strandId:\"{}\",sequenceNo:{}}},hash:{{{{{hash}}}}},data:{data},\
         metadata:{{id:\"{}\",version:{},txTime:2024-05-07T10:11:12.250Z,txId:\"{}\"}}}}}}}}",
        some.id(),
        some.id(),
        some.below(100_000),
        some.id(),
        some.below(50),
        some.id(),
    )
}

fn block_summary(some: &mut Sequence) -> String {
    let (mut hash, document) = (|| format!("{{{{{}}}}}", some.hash()), "3QxYbM8sTkE1pLw0Zr9uAc");
    format!(
        "{{qldbStreamArn:\"{ARN}\",recordType:\"BLOCK_SUMMARY\",payload:{{blockAddress:{{strandId:\"7sWdNf0uQxB4mJkTzL1eRg\",sequenceNo:918}},\
         transactionId:\"9fKc2WqLr7D0xVtJm4HsNe\",blockTimestamp:2024-05-07T10:11:12.249Z,blockHash:{},entriesHash:{},previousBlockHash:{},\
         entriesHashList:[{},{},{}],transactionInfo:{{statements:[{{statement:\"UPDATE t AS r SET r.x = ?\",\
         startTime:2024-05-07T10:11:12.231Z,statementDigest:{}}}],documents:{{'{document}':{{tableName:\"VehicleRegistration\",\
         tableId:\"0cVbZr5NnLt2KyWqHs8DfX\",statements:[0]}}}}}},revisionSummaries:[{{hash:{},documentId:\"{document}\"}}]}}}}",
        hash(),
        hash(),
        hash(),
        hash(),
        hash(),
        hash(),
        hash(),
        hash(),
    )
}

/// A stream as a ledger writes it: every record with its own symbol table.
fn stream() -> Vec<Record> {
    let mut some = Sequence(7);
    let origin = Arc::new(Origin { stream: "ledger".to_owned(), shard: "0".to_owned() });
    (0..REVISIONS + SUMMARIES)
        .map(|i| {
            let of_summaries = i * SUMMARIES / (REVISIONS + SUMMARIES);
            let next = (i + 1) * SUMMARIES / (REVISIONS + SUMMARIES);
            let text = if next > of_summaries { block_summary(&mut some) } else { revision(&mut some) };
            let data = Element::read_one(text).unwrap().encode_as(Binary).unwrap();
            Record {
                origin: origin.clone(),
                position: Position::Byte { offset: i as u64 },
                data: data.into(),
                arrived: None,
                damage: None,
                message: None,
            }
        })
        .collect()
}

fn operations(records: &[Record], decoder: &mut Decoder, mapping: &mut Mapping, operations: &mut Vec<Operation>) {
    let (mut units, mut notes) = (Vec::with_capacity(1), Notes::default());
    for record in records {
        decoder.decode(record, &mut units, &mut notes);
        for unit in units.drain(..) {
            if let Content::Revision(revision) = unit.content
                && let Some(Plan { planned: Planned::Operation(operation), .. }) = mapping.plan(revision, 0).unwrap().into_iter().next()
            {
                operations.push(operation);
            }
        }
    }
}

/// The lines of a body, as the sinks write them.
fn encode(operations: &[Operation], body: Vec<u8>) -> Vec<u8> {
    let mut lines = Portions::new(body);
    operations.iter().for_each(|operation| lines.append(operation, false).unwrap());
    lines.finish().unwrap()
}

/// Walks every value, as a converter on top of ion-rs would have to.
fn walk(value: ValueRef<'_, Binary>) -> usize {
    match value {
        ValueRef::List(list) => list.iter().map(|item| walk(item.unwrap().read().unwrap())).sum(),
        ValueRef::SExp(list) => list.iter().map(|item| walk(item.unwrap().read().unwrap())).sum(),
        ValueRef::Struct(fields) => fields
            .iter()
            .map(|field| field.unwrap())
            .map(|f| f.name().unwrap().text().map_or(0, str::len) + walk(f.value().read().unwrap()))
            .sum(),
        other => usize::from(!matches!(other, ValueRef::Null(_))),
    }
}

fn line(criterion: &mut Criterion) {
    let records = stream();
    let bytes: usize = records.iter().map(|record| record.data.len()).sum();
    let documents: usize = {
        let mut planned = Vec::new();
        operations(&records, &mut Decoder::default(), &mut Mapping::default(), &mut planned);
        planned.iter().map(Operation::size).sum()
    };
    eprintln!("{REVISIONS} revisions and {SUMMARIES} block summaries: {bytes} bytes of Ion, about {documents} bytes of bulk body");
    let mut group = criterion.benchmark_group("line");
    group.throughput(Throughput::Elements(REVISIONS as u64));

    group.bench_function("decode", |bencher| {
        let mut decoder = Decoder::default();
        bencher.iter(|| {
            let (mut units, mut notes) = (Vec::with_capacity(records.len()), Notes::default());
            records.iter().for_each(|record| decoder.decode(record, &mut units, &mut notes));
            assert_eq!(units.len(), records.len());
            black_box(units)
        });
    });

    group.bench_function("decode_to_bulk_body", |bencher| {
        let (mut decoder, mut mapping) = (Decoder::default(), Mapping::default());
        let (mut planned, mut body) = (Vec::with_capacity(REVISIONS), Vec::with_capacity(2 * bytes));
        bencher.iter(|| {
            planned.clear();
            body.clear();
            operations(&records, &mut decoder, &mut mapping, &mut planned);
            assert_eq!(planned.len(), REVISIONS);
            body = encode(&planned, std::mem::take(&mut body));
            black_box(body.len())
        });
    });

    group.bench_function("encode", |bencher| {
        let (mut planned, mut body) = (Vec::new(), Vec::with_capacity(2 * bytes));
        operations(&records, &mut Decoder::default(), &mut Mapping::default(), &mut planned);
        bencher.iter(|| {
            body.clear();
            body = encode(&planned, std::mem::take(&mut body));
            black_box(body.len())
        });
    });

    group.bench_function("walk_by_ion_rs", |bencher| {
        bencher.iter_batched(
            || records.iter().map(|record| record.data.clone()).collect::<Vec<Bytes>>(),
            |records| {
                let mut seen = 0;
                for record in &records {
                    let mut reader = Reader::new(Binary, &record[..]).unwrap();
                    while let Some(value) = reader.next().unwrap() {
                        seen += walk(value.read().unwrap());
                    }
                }
                black_box(seen)
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// Takes rows as JSON, as the command prints them, and keeps none.
struct Lines(Vec<u8>);

impl Rows for Lines {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Error> {
        self.0.clear();
        values.iter().for_each(|value| value.write_json(&mut self.0));
        Ok(())
    }

    fn show(&mut self, _: u64, _: &Scanned) -> Result<bool, Error> {
        Ok(true)
    }
}

/// Statements over the same records, beside decoding them alone.
fn query(criterion: &mut Criterion) {
    let records = stream();
    let mut group = criterion.benchmark_group("query");
    group.throughput(Throughput::Elements(REVISIONS as u64));
    for (name, found, statement) in [
        ("two_paths_of_some", 1..REVISIONS as u64, "SELECT VIN, Owners.PrimaryOwner.PersonId FROM VehicleRegistration WHERE State = 'WA'"),
        ("everything", REVISIONS as u64..REVISIONS as u64 + 1, "SELECT * FROM stream"),
        ("another_table", 0..1, "SELECT * FROM Person"),
    ] {
        group.bench_function(name, |bencher| {
            let statement = Query::parse(statement, 0).unwrap();
            let (mut decoder, _) = decoder(&statement, codec::Options::default());
            let mut lines = Lines(Vec::new());
            bencher.iter(|| {
                let mut scanned = Scanned::default();
                let mut evaluation = Evaluation::new(&statement, &mut decoder, &mut lines, &mut scanned);
                for record in &records {
                    evaluation.record(record).unwrap();
                }
                assert!(found.contains(&scanned.rows), "{scanned:?}");
                black_box(scanned)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, line, query);
criterion_main!(benches);
