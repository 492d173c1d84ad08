//! An address that stays while the server behind it goes and comes back elsewhere: connections are passed on, or closed while there is none.

use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

#[derive(Debug, Clone, Default)]
pub struct Relay {
    /// `HOST:PORT` of the server, while it is there.
    server: Arc<Mutex<Option<String>>>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Relay {
    /// Listens, and passes nothing on yet; gives the URL to reach the server under.
    pub async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let relay = self.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let server = relay.server.lock().expect("no panic under the lock").clone();
                let connection = tokio::spawn(async move {
                    if let Some(server) = server
                        && let Ok(mut server) = TcpStream::connect(server).await
                    {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                relay.connections.lock().expect("no panic under the lock").push(connection.abort_handle());
            }
        });
        url
    }

    /// From now on connections go there.
    pub fn to(&self, url: &str) {
        *self.server.lock().expect("no panic under the lock") = Some(url.trim_start_matches("http://").to_owned());
    }

    /// From now on connections are closed, also those that there are.
    pub fn to_nowhere(&self) {
        *self.server.lock().expect("no panic under the lock") = None;
        self.connections.lock().expect("no panic under the lock").drain(..).for_each(|connection| connection.abort());
    }
}
