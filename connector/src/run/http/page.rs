//! The page for people on call: one sentence on top, and below it what that sentence comes from.
//!
//! Works without JavaScript and without anything from elsewhere; a few lines of script only replace what is shown by what is newer. Every name
//! in it comes from outside and is written as text.

use std::fmt::{self, Display, Write};
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY};
use sha2::{Digest, Sha256};

use super::status::{Event, ShardStatus, Side, Status};
use crate::plan::health::{CAUGHT_UP, Tone, in_words};
use crate::run::history::POINTS;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the page may do: run its own style and script, and ask its own server again.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    HeaderValue::from_str(&policy).ok()
});

/// The headers that go with the page.
pub(super) fn headers() -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let policy = POLICY.clone().map(|policy| (CONTENT_SECURITY_POLICY, policy));
    policy.into_iter().chain([(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))])
}

/// The page. The first `shown` shards are on it.
pub(super) fn write(status: &Status, shown: usize) -> String {
    let mut out = String::with_capacity(32 * 1024);
    // A string takes everything.
    let _ = document(&mut out, status, shown);
    out
}

/// Text from outside as HTML: also inside of an attribute, and without what would reorder or hide the text around it.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\r' | '\t' => f.write_char(' ')?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_char(char::REPLACEMENT_CHARACTER)?,
                c if c.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A whole number with its digits in threes.
struct Number(u64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.char_indices() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// A number for each second.
struct PerSecond(f64);

impl Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 10.0 || self.0 == 0.0 { Number(self.0.round() as u64).fmt(f) } else { write!(f, "{:.1}", self.0) }
    }
}

fn document(out: &mut String, status: &Status, shown: usize) -> fmt::Result {
    let (tone, name) = (status.headline.tone, Text(&status.pipeline));
    let (colour, mark) = match tone {
        Tone::Good => ("%231a7f45", "✓"),
        Tone::Busy => ("%23d89614", "…"),
        Tone::Idle => ("%233b5b87", "‖"),
        Tone::Bad => ("%23b3261e", "✗"),
    };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{mark} {name} – revsync</title>\n\
         <link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
         %3Ccircle cx='8' cy='8' r='7' fill='{colour}'/%3E%3C/svg%3E\">\n<style>{STYLE}</style>\n\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n</head>\n<body>\n<main>\n"
    )?;
    write!(
        out,
        "<header><h1>{name}</h1><p class=\"soft\">{}, started {} ago</p></header>\n<p class=\"headline {}\" role=\"status\">{}</p>\n",
        status.phase,
        in_words(Duration::from_secs(status.uptime_seconds)),
        tone.as_str(),
        Text(&status.headline.text)
    )?;
    // One that is short stands in the headline as it is.
    let is_told = |reason: &String| status.headline.text.contains(reason.trim_end_matches(['.', ';']));
    if status.reasons.len() > 1 || (status.phase == "running" && !status.reasons.iter().all(is_told)) {
        out.push_str("<ul class=\"reasons\">\n");
        for reason in &status.reasons {
            writeln!(out, "<li>{}</li>", Text(reason))?;
        }
        out.push_str("</ul>\n");
    }
    tiles(out, status)?;
    todo(out, status)?;
    shards(out, &status.shards, shown)?;
    blocked(out, status)?;
    places(out, status)?;
    events(out, status)?;
    totals(out, status)?;
    write!(
        out,
        "<footer><span>revsync {}</span><span>{}</span><span>{}</span><a href=\"status\">status as JSON</a><a href=\"metrics\">metrics</a>\
         <a href=\"ready\">ready</a><a href=\"live\">live</a></footer>\n</main>\n<p id=\"lost\" role=\"alert\" hidden></p>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        status.version,
        Text(&status.owner),
        Text(&status.time)
    )
}

fn tiles(out: &mut String, status: &Status) -> fmt::Result {
    let furthest = status.shards.iter().filter_map(ShardStatus::lag).max();
    let count = |name: &str| status.counts[name].as_u64().unwrap_or_default();
    let lost: u64 = status.data_loss.values().sum();
    let bad = |is_bad: bool| if is_bad { " class=\"bad\"" } else { "" };
    let lag = furthest.map_or_else(|| "–".to_owned(), roughly);
    let tone = if furthest.is_some_and(|lag| lag > CAUGHT_UP) { " class=\"busy\"" } else { "" };
    out.push_str("<dl class=\"tiles\">\n");
    writeln!(out, "<div><dt>furthest behind</dt><dd{tone}>{lag}</dd></div>")?;
    writeln!(out, "<div><dt>read per second</dt><dd>{}</dd></div>", PerSecond(status.received_per_second))?;
    writeln!(out, "<div><dt>settled per second</dt><dd>{}</dd></div>", PerSecond(status.settled_per_second))?;
    writeln!(out, "<div><dt>not settled</dt><dd>{}</dd></div>", Number(count("pending")))?;
    writeln!(out, "<div><dt>dead letters</dt><dd{}>{}</dd></div>", bad(count("dead_letters") > 0), Number(count("dead_letters")))?;
    writeln!(out, "<div><dt>lost unread</dt><dd{}>{}</dd></div>", bad(lost > 0), Number(lost))?;
    out.push_str("</dl>\n");
    Ok(())
}

fn shards(out: &mut String, all: &[ShardStatus], shown: usize) -> fmt::Result {
    let open = all.iter().filter(|shard| shard.phase != "ended").count();
    let ended = all.len() - open;
    if all.is_empty() {
        return Ok(());
    }
    out.push_str("<h2>Shards</h2>\n<div class=\"card\">\n");
    if open > 0 {
        out.push_str(
            "<table class=\"shards\">\n<thead><tr><th>shard</th><th>state</th><th class=\"n\">behind</th><th>last 30 min</th>\
             <th class=\"n\">records/s</th><th class=\"n\">not settled</th><th>settled up to</th></tr></thead>\n<tbody>\n",
        );
        for one in all.iter().take(open.min(shown)) {
            shard(out, one)?;
        }
        out.push_str("</tbody>\n</table>\n");
    }
    let rest = &all[open.min(shown)..open];
    let mut more = Vec::new();
    let mut add = |number: usize, one: &str, many: &str| {
        if number > 0 {
            more.push(format!("{} {}", Number(number as u64), if number == 1 { one } else { many }));
        }
    };
    let of = |shard: &ShardStatus| match (shard.phase, shard.lag()) {
        ("reading", Some(lag)) if lag > CAUGHT_UP => 0,
        ("reading", Some(_)) => 1,
        ("reading", None) => 2,
        ("held", _) => 3,
        _ => 4,
    };
    let number = |kind: i32| rest.iter().filter(|shard| of(shard) == kind).count();
    add(number(0), "more that is behind", "more that are behind");
    add(number(1), "more that is caught up", "more that are caught up");
    add(number(2), "more that has not answered yet", "more that have not answered yet");
    add(number(3), "more that is read by another process", "more that are read by other processes");
    add(number(4), "more that waits for its parents", "more that wait for their parents");
    add(ended, "that is closed and settled", "that are closed and settled");
    if !more.is_empty() {
        writeln!(out, "<p class=\"more\">{}{}</p>", if open > 0 { "and " } else { "" }, more.join(", "))?;
    }
    out.push_str("</div>\n");
    Ok(())
}

fn shard(out: &mut String, shard: &ShardStatus) -> fmt::Result {
    let behind = shard.lag();
    let (class, lag) = match behind {
        Some(lag) if lag > CAUGHT_UP => (" busy", in_words(lag)),
        Some(lag) => ("", roughly(lag)),
        None => (" soft", "–".to_owned()),
    };
    let state = match (shard.phase, &shard.owner, behind) {
        ("held", Some(owner), _) => format!("read by {owner}"),
        ("waiting", ..) => "waits for its parents".to_owned(),
        (_, _, Some(lag)) if lag <= CAUGHT_UP => "caught up".to_owned(),
        (_, _, Some(_)) => "behind".to_owned(),
        (_, _, None) => "not answered yet".to_owned(),
    };
    write!(
        out,
        "<tr><td class=\"name\">{}</td><td class=\"keep{class}\">{}</td><td class=\"n{class}\">{lag}</td><td>",
        Text(&shard.shard),
        Text(&state)
    )?;
    curve(out, &shard.lags)?;
    write!(
        out,
        "</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
        PerSecond(shard.records_per_second),
        Number(shard.unsettled as u64)
    )?;
    match &shard.settled {
        Some(settled) => {
            writeln!(out, "<td class=\"keep\" title=\"{}\"><code>{}</code></td></tr>", Text(settled), Text(&shortened(settled)))?
        }
        None => out.push_str("<td class=\"soft\">–</td></tr>\n"),
    }
    if let Some(trouble) = &shard.trouble {
        writeln!(out, "<tr class=\"why\"><td colspan=\"7\" class=\"bad\">{}</td></tr>", Text(trouble))?;
    }
    Ok(())
}

/// A lag as people want to know it: fractions of a second say nothing.
fn roughly(lag: Duration) -> String {
    if lag < Duration::from_secs(1) { "under 1 s".to_owned() } else { in_words(lag) }
}

/// A position in little room: its end is where positions of a shard differ.
fn shortened(position: &str) -> String {
    const END: usize = 14;
    let position = position.strip_prefix("sequence number ").unwrap_or(position);
    let count = position.chars().count();
    if count <= END + 1 { position.to_owned() } else { format!("…{}", position.chars().skip(count - END).collect::<String>()) }
}

/// The lag over the last half hour as a curve, the present at the right.
fn curve(out: &mut String, lags: &[Option<f32>]) -> fmt::Result {
    let Some(peak) = lags.iter().flatten().copied().reduce(f32::max) else { return Ok(()) };
    // What is caught up is a flat line at the bottom, not a mountain of milliseconds.
    let top = peak.max(3.0 * CAUGHT_UP.as_secs_f32());
    let (mut line, mut area, mut open) = (String::new(), String::new(), false);
    for (at, lag) in lags.iter().enumerate() {
        let x = POINTS - lags.len() + at + 1;
        match lag {
            Some(lag) => {
                let y = 22.0 - 20.0 * lag / top;
                if !std::mem::replace(&mut open, true) {
                    write!(area, "M{x} 23")?;
                    write!(line, "M{x} {y:.1}")?;
                }
                write!(area, "L{x} {y:.1}")?;
                write!(line, "L{}.5 {y:.1}", x)?;
                if lags.get(at + 1).is_none_or(Option::is_none) {
                    write!(area, "V23Z")?;
                }
            }
            None => open = false,
        }
    }
    let words = roughly(Duration::from_secs_f32(peak));
    write!(
        out,
        "<div class=\"curve\"><svg viewBox=\"0 0 122 24\" width=\"122\" height=\"24\" role=\"img\" aria-label=\"{words} behind at most in the last 30 min\">\
         <title>{words} behind at most in the last 30 min</title><path d=\"M0 23.5H122\" stroke=\"currentColor\" stroke-opacity=\".3\"/>\
         <path d=\"{area}\" fill=\"currentColor\" fill-opacity=\".18\"/>\
         <path d=\"{line}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" stroke-linejoin=\"round\"/></svg>\
         <span class=\"peak\">peak {words}</span></div>"
    )
}

fn places(out: &mut String, status: &Status) -> fmt::Result {
    out.push_str("<h2>Places</h2>\n<div class=\"card\">\n<table class=\"list\">\n<tbody>\n");
    let places =
        [("source", &status.source), ("sink", &status.sink), ("checkpoints", &status.checkpoints), ("dead letters", &status.dead_letters)];
    for (name, Side { address, reachable, unreachable_seconds, why }) in places {
        let since = in_words(Duration::from_secs(unreachable_seconds.unwrap_or_default()));
        let (class, said) = match reachable {
            Some(true) => ("good", "✓ reachable".to_owned()),
            Some(false) => ("bad", format!("✗ unreachable for {since}")),
            None => ("soft", "not tried yet".to_owned()),
        };
        writeln!(
            out,
            "<tr><td class=\"keep soft\">{name}</td><td class=\"wide\">{}</td><td class=\"keep {class}\">{said}</td></tr>",
            Text(address)
        )?;
        if let Some(why) = why {
            writeln!(out, "<tr class=\"why\"><td></td><td colspan=\"2\" class=\"bad\">{}</td></tr>", Text(why))?;
        }
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    Ok(())
}

fn blocked(out: &mut String, status: &Status) -> fmt::Result {
    if status.blocked.is_empty() {
        return Ok(());
    }
    out.push_str("<h2>Blocked indices</h2>\n<div class=\"card\">\n<table class=\"list\">\n<tbody>\n");
    for blocked in &status.blocked {
        let since = in_words(Duration::from_secs(blocked.seconds));
        writeln!(out, "<tr><td class=\"name\">{}</td><td class=\"keep bad\">for {since}</td></tr>", Text(&blocked.index))?;
        writeln!(out, "<tr class=\"why\"><td colspan=\"2\">{}</td></tr>", Text(&blocked.why))?;
    }
    out.push_str("</tbody>\n</table>\n");
    if status.paused {
        out.push_str("<p class=\"more\">So much waits for these that nothing more is read.</p>\n");
    }
    out.push_str("</div>\n");
    Ok(())
}

fn events(out: &mut String, status: &Status) -> fmt::Result {
    let events = [("last error", &status.last_error), ("last dead letter", &status.last_dead_letter)];
    if events.iter().all(|(_, event)| event.is_none()) {
        return Ok(());
    }
    out.push_str("<h2>What happened last</h2>\n<div class=\"card\">\n<table class=\"list\">\n<tbody>\n");
    for (name, event) in events {
        let Some(Event { time, seconds_ago, what }) = event else { continue };
        let ago = in_words(Duration::from_secs(*seconds_ago));
        writeln!(
            out,
            "<tr><td class=\"keep soft\">{name}</td><td class=\"wide\">{}</td><td class=\"n soft\" title=\"{}\">{ago} ago</td></tr>",
            Text(what),
            Text(time)
        )?;
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    Ok(())
}

fn totals(out: &mut String, status: &Status) -> fmt::Result {
    out.push_str("<h2>Since this process started</h2>\n<div class=\"card facts\">\n");
    for name in ["received", "indexed", "deleted", "stale", "absent", "compacted"] {
        writeln!(out, "<span><span class=\"soft\">{name}</span> {}</span>", Number(status.counts[name].as_u64().unwrap_or_default()))?;
    }
    let skipped = status.counts["skipped"].as_object().into_iter().flatten().filter_map(|(name, count)| Some((name, count.as_u64()?)));
    for (name, count) in skipped.filter(|(_, count)| *count > 0) {
        writeln!(out, "<span><span class=\"soft\">skipped, {}</span> {}</span>", Text(&name.replace('_', " ")), Number(count))?;
    }
    if let Some(ratio) = status.stale_ratio {
        writeln!(out, "<span><span class=\"soft\">stale of the last answers</span> {:.1} %</span>", ratio * 100.0)?;
    }
    for (cause, count) in status.data_loss.iter().filter(|(_, count)| **count > 0) {
        writeln!(out, "<span class=\"bad\">lost unread, {} {}</span>", cause.as_str(), Number(*count))?;
    }
    writeln!(out, "<span><span class=\"soft\">in memory</span> {:.1} MiB</span>", status.bytes_in_flight as f64 / f64::from(1 << 20))?;
    out.push_str("</div>\n");
    Ok(())
}

/// What helps with what is wrong, where anything does.
fn todo(out: &mut String, status: &Status) -> fmt::Result {
    let (sink, letters) = (quoted(&status.sink.address), quoted(&status.dead_letters.address));
    let mut todo: Vec<(&str, Vec<String>)> = Vec::new();
    if status.stuck.is_some() {
        todo.push(("Start the process anew: it goes on where everything is settled.", Vec::new()));
    }
    if status.sink.reachable == Some(false) {
        let what = "The sink is tried again and again, and nothing has to be started anew. What can be reached, and with which rights:";
        todo.push((what, vec![format!("revsync check --to {sink}")]));
    }
    if !status.blocked.is_empty() {
        let what = "Do what the reason of the blocked index asks for. It is tried again every 30 s at the latest, and what waits for it is sent then.";
        todo.push((what, Vec::new()));
    }
    if status.counts["dead_letters"].as_u64() > Some(0) {
        let what = "Dead letters: look at their reasons, put right what caused them, and send them again.";
        todo.push((
            what,
            vec![
                format!("revsync dead-letters list --dead-letters {letters}"),
                format!("revsync dead-letters replay --dead-letters {letters} --to {sink}"),
            ],
        ));
    }
    if status.data_loss.values().any(|count| *count > 0) {
        let what = "What was lost is not in the stream any more. Where it was captured elsewhere, it can be sent from there at any time:";
        todo.push((what, vec![format!("revsync sync CAPTURE --to {sink}")]));
    }
    if todo.is_empty() {
        return Ok(());
    }
    out.push_str("<h2>What to do</h2>\n<ul class=\"card todo\">\n");
    for (what, commands) in todo {
        write!(out, "<li>{what}")?;
        for command in commands {
            write!(out, "<code>{}</code>", Text(&command))?;
        }
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n");
    Ok(())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
