//! Starts Towpath in front of a cluster and prints its address; ends with its standard input.
//!
//! usage: stand ENV_FILE [--append FILE]

use anyhow::{Context, Result, bail};
use e2e::{Cluster, Setup};
use std::{
    io::{Read, Write},
    path::Path,
};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, append) = match arguments.as_slice() {
        [file] => (file, None),
        [file, option, append] if option == "--append" => (file, Some(append)),
        _ => bail!("usage: stand ENV_FILE [--append FILE]"),
    };
    let mut setup = Setup::of(&Cluster::read(Path::new(file))?).listener_tls("prefer");
    if let Some(append) = append {
        setup = setup.append(&std::fs::read_to_string(append).with_context(|| append.clone())?);
    }
    let proxy = setup.start()?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", proxy.address)?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
