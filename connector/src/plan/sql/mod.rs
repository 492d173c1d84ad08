//! The language of conditions and expressions: WHERE in rules, SELECT and WHERE in pull queries. Read once, evaluated on every row.
//!
//! Pure, and takes the grammar from `sqlparser`, through a small dialect. The values at the paths that a text names are found in one pass over the JSON text.
//! Never builds a tree of a document, and never fails on a value: what cannot be computed is null, what cannot be compared is unknown, and what is
//! unknown does not match.
//!
//! # The language
//!
//! | | |
//! |---|---|
//! | path | `State`, `Owners.PrimaryOwner.PersonId`, `Owners.SecondaryOwners[0].PersonId` (from 0), `"a name with dots.or spaces"."like"`; letter case counts; a word of SQL goes in double quotes |
//! | value | `'text'` (a quote in it is doubled), `442.30`, `-1e400`, TRUE, FALSE, NULL, `TIMESTAMP '2017-08-21T10:00:00.5+02:00'`, `DATE '2017-08-21'` |
//! | comparison | `=` `<>` `!=` `<` `<=` `>` `>=`; `Active` alone is `Active = TRUE` |
//! | more | `IN (…)`, `BETWEEN … AND …`, `LIKE '…%_'` with `ESCAPE '…'`, each with NOT before it; `IS [NOT]` NULL, MISSING, TRUE, FALSE, UNKNOWN |
//! | between them | NOT, AND, OR, parentheses; `--` and `/* */` comments |
//! | arithmetic | `+` `-` `*` `/` `%`, and `||` between texts, after the others: `a \|\| b * 2` multiplies first |
//! | time | a timestamp `+` or `-` `INTERVAL '2' HOUR` (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR) |
//! | choice | `CASE WHEN … THEN … ELSE … END`, `CASE x WHEN …`, COALESCE, NULLIF, GREATEST, LEAST |
//! | conversion | `CAST(x AS type)`: VARCHAR(n), CHAR(n), TEXT; INTEGER, BIGINT (rounded, of any size); DECIMAL(p, s), DOUBLE (exact too); BOOLEAN; TIMESTAMP; DATE (a text such as `2017-08-21`). What cannot be converted is null |
//!
//! # Functions
//!
//! | | |
//! |---|---|
//! | `UPPER(x)`, `LOWER(x)` | letters |
//! | `LENGTH(x)`, CHAR_LENGTH, CHARACTER_LENGTH | in characters (code points) |
//! | `SUBSTRING(x FROM 1 FOR 2)`, `SUBSTRING(x, 1, 2)`, SUBSTR | from 1; without a length up to the end |
//! | `LEFT(x, n)`, `RIGHT(x, n)` | with a negative n all but so many |
//! | `TRIM([BOTH, LEADING or TRAILING] ['ab' FROM] x)`, BTRIM, `LTRIM(x, 'ab')`, RTRIM | these characters, else spaces |
//! | `REPLACE(x, part, by)`, `CONCAT(x, …)` | CONCAT leaves nulls out, `||` is null with one |
//! | `POSITION(part IN x)`, `STRPOS(x, part)`, `STARTS_WITH(x, part)` | from 1, 0 where it is nowhere |
//! | `ABS(x)`, `SIGN(x)`, `FLOOR(x)`, `CEIL(x)`, CEILING, `ROUND(x, digits)`, `MOD(x, y)` | ROUND: halves away from zero |
//! | `GREATEST(x, …)`, `LEAST(x, …)`, `COALESCE(x, …)`, `NULLIF(x, y)` | GREATEST and LEAST are null where one is, or cannot be compared |
//! | `NOW()`, CURRENT_TIMESTAMP | when the query was asked; not in rules, which say the same of a revision whenever it is read |
//! | `EXTRACT(YEAR FROM x)` | YEAR, MONTH, DAY, HOUR, MINUTE, SECOND with its fraction, EPOCH (seconds since 1970); in UTC |
//! | `DATE_TRUNC('day', x)` | year, quarter, month, week (from Monday), day, hour, minute, second; in UTC |
//! | `TO_TIMESTAMP(x)` | of a text, or of milliseconds since 1970 |
//! | `CARDINALITY(x)`, SIZE | how many elements a list has |
//!
//! # What it means
//!
//! - Logic has three values. Null and missing are unknown, and so is a comparison of values of different types (a number with a string, anything
//!   with an object): neither `State = 'WA'` nor `State <> 'WA'` holds for a document without `State`. NOT of unknown is unknown. Only what
//!   is true matches.
//! - `IS NULL` holds for null and for what is missing, `IS MISSING` only for a path that leads nowhere at all. Neither is ever unknown.
//! - Numbers are compared exactly, as decimals on their digits: `442.30 = 442.3`, and 9223372036854775807 is below 9223372036854775808.
//!   Under a rule with `decimals = "string"` a decimal is a string here too.
//! - Arithmetic is exact. A quotient that does not end has 40 significant digits, or as many as the dividend. `7 / 2` is 3.5. Null: a division by zero, a number
//!   of more than 1,000 digits or with its first digit more than 1,000 places from the point, a result of more than 1,000 digits, a
//!   text put together of more than 16 MiB.
//! - Strings are compared by their code points, after JSON's escapes are undone.
//! - Timestamps are compared as points in time, to the last digit. Two strings that both have a date, a time and an offset (`Z`, `+02:00`, or the unknown
//!   offset `-00:00`, which is UTC) are equal where they mean one moment; a plain date is its midnight in UTC beside such a string, and two
//!   plain dates compare as the texts they are. A value that is a timestamp by itself (TIMESTAMP '…', CAST, ROWTIME, NOW(), metadata.txTime) compares so with every string
//!   that reads as one, `2019`, `2019-05` and times without an offset (UTC) too, with a number as milliseconds since 1970, and is unknown beside
//!   anything else. Years 1 to 9999, the Gregorian calendar, no leap seconds.
//! - A path that leads through a list, or ends at one, means any of its elements in a comparison, also of lists in lists. A comparison is true when it is true
//!   for one element (with two paths: for one pair); else unknown when it is unknown for one; else false. An empty list has no element
//!   and is as null. So `Tags <> 'x'` says that some tag is another, and `NOT Tags = 'x'` that none is `x`; `NOT IN`, `NOT BETWEEN`
//!   and `NOT LIKE` are NOT of the whole, and say that no element is. `BETWEEN` asks both of one and the same element.
//!   `IS NULL` says that no element is anything but null, `IS NOT NULL` that some element is.
//! - Everywhere else, as the argument of a function, in arithmetic and in SELECT, a path that leads through a list is the list of what it found, and every
//!   other path the value itself.
//! - A text has at most 5,000 words and signs beside its values, and nests some 20 levels deep.

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

#[cfg(test)]
mod tests;
