//! A certificate for servers of this machine, signed by an authority of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::program;

/// PEM files.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The authority that clients have to trust.
    pub ca_file: PathBuf,
    /// For `localhost` and `127.0.0.1`.
    pub certificate_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
}

impl Certificate {
    /// Makes them in this folder, or says what is missing.
    pub fn make(folder: &Path) -> Result<Self, String> {
        let openssl = program("openssl").ok_or("openssl is missing; Debian package openssl")?;
        let path = |name: &str| folder.join(name);
        let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
        std::fs::write(path("extensions"), extensions).map_err(|error| error.to_string())?;
        let new_key = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let authority =
            ["-x509", "-days", "30", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem"];
        let request = ["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"];
        let sign =
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile extensions";
        let sign: Vec<&str> = sign.split(' ').chain(["-out", "server.pem"]).collect();
        for arguments in
            [[new_key.as_slice(), &authority].concat(), [new_key.as_slice(), &request].concat(), sign]
        {
            let mut command = Command::new(&openssl);
            let quiet =
                command.current_dir(folder).args(&arguments).stderr(Stdio::null()).stdout(Stdio::null());
            let done = quiet.status().map_err(|error| error.to_string())?;
            if !done.success() {
                return Err(format!("openssl {}: {done}", arguments.join(" ")));
            }
        }
        let (certificate_file, key_file) = (path("server.pem"), path("server.key"));
        Ok(Self { ca_file: path("ca.pem"), certificate_file, key_file })
    }
}
