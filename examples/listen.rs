//! Where the examples that are servers listen.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::{Context, Result};
use tokio::net::TcpListener;

/// Listens on this machine, on the port of the variable `PORT`, which is `default` unless it is set; 0 chooses a free
/// one. Prints the address, behind which the program prints commands to try.
pub(crate) async fn listen(default: u16) -> Result<(TcpListener, SocketAddr)> {
    let port = match env::var("PORT") {
        Ok(port) => port.parse().with_context(|| format!("PORT is {port:?}: use 0 to 65535"))?,
        Err(_) => default,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    Ok((listener, address))
}
