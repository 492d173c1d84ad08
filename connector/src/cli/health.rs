//! `health`: ask a worker on this machine how it is, for containers that hold no other program to ask with.
//!
//! One request to the worker's own address, as the configuration says it; reaches neither end of the line. A worker that does not answer in time
//! counts as one that does not live.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Context;
use super::options::{HttpOptions, LISTEN};
use super::terminal::clean;
use crate::config::Listen;
use crate::error::{Error, Exit};

/// How long the worker may take. Less than the five seconds that container engines are told to wait.
const PATIENCE: Duration = Duration::from_secs(4);
/// The most bytes of an answer that are shown.
const MOST: usize = 64 * 1024;

/// Ask a worker on this machine whether it lives, as the health check of a container
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync health
  revsync health --ready --http 127.0.0.1:9090

Exit codes:
  0  it does
  1  it does not, or it did not answer within 4 seconds
  2  the configuration cannot be used, or says that it answers nowhere")]
pub struct Arguments {
    #[command(flatten)]
    http: HttpOptions,
    /// Ask whether it is ready instead: whether both ends can be reached and no index is blocked
    #[arg(long)]
    ready: bool,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.http])?;
    let Listen(Some(listens)) = settings.http.listen.unwrap_or(Listen(Some(LISTEN))) else {
        return Err(Error::usage("health: expected the address at which the worker answers, found none")
            .help("give the worker an address with --http or REVSYNC_HTTP, such as 127.0.0.1:8080"));
    };
    let (path, expected) = if arguments.ready { ("/ready", "ready") } else { ("/live", "live") };
    let address = on_this_machine(listens);
    let answer = tokio::time::timeout(PATIENCE, ask(address, path)).await;
    let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
    let (exit, status, said) = match answer {
        Ok((200, said)) => (Exit::Done, expected.to_owned(), said),
        Ok((status, said)) => (Exit::Attention, format!("not {expected}: status {status}"), said),
        Err(why) => (Exit::Attention, format!("not {expected}: {address}: {why}"), String::new()),
    };
    if context.terminal.json {
        context.terminal.print_json(&serde_json::json!({ "ok": exit == Exit::Done, "status": status, "answer": said }))?;
    } else {
        context.terminal.print(&format!("{}\n", clean(format!("{status} {said}").trim())))?;
    }
    Ok(exit)
}

/// Where a program on this machine finds what listens on this address.
fn on_this_machine(listens: SocketAddr) -> SocketAddr {
    let address = match listens.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(address, listens.port())
}

async fn ask(address: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut requests, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", address.to_string()).body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let answer = requests.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), MOST).collect().await.map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_everywhere_is_asked_here() {
        for (listens, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("10.1.2.3:80", "10.1.2.3:80"),
        ] {
            assert_eq!(on_this_machine(listens.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
