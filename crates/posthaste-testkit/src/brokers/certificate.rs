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

/// What a careful client must not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It was valid until yesterday.
    Expired,
    /// It was made for another host.
    WrongHost,
    /// It is signed by itself instead of the authority.
    SelfSigned,
}

impl Certificate {
    /// Makes them in this folder, or says what is missing.
    pub fn make(folder: &Path) -> Result<Self, String> {
        Self::make_with(None, folder)
    }

    /// The same with one thing wrong.
    pub fn flawed(flaw: Flaw, folder: &Path) -> Result<Self, String> {
        Self::make_with(Some(flaw), folder)
    }

    fn make_with(flaw: Option<Flaw>, folder: &Path) -> Result<Self, String> {
        let path = |name: &str| folder.join(name);
        let names = if flaw == Some(Flaw::WrongHost) {
            "DNS:elsewhere.example"
        } else {
            "DNS:localhost,IP:127.0.0.1"
        };
        let extensions = format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n");
        std::fs::write(path("extensions"), extensions).map_err(|error| error.to_string())?;
        let new_key = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let authority =
            ["-x509", "-days", "30", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem"];
        let request = ["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"];
        openssl(folder, &[new_key.as_slice(), &authority].concat())?;
        openssl(folder, &[new_key.as_slice(), &request].concat())?;
        let days = if flaw == Some(Flaw::Expired) { "-1" } else { "30" };
        let sign = ["x509", "-req", "-in", "server.csr", "-days", days, "-extfile", "extensions"];
        let signer: &[&str] = match flaw {
            Some(Flaw::SelfSigned) => &["-signkey", "server.key"],
            _ => &["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
        };
        openssl(folder, &[sign.as_slice(), signer, &["-out", "server.pem"]].concat())?;
        let (certificate_file, key_file) = (path("server.pem"), path("server.key"));
        Ok(Self { ca_file: path("ca.pem"), certificate_file, key_file })
    }
}

fn openssl(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let openssl = program("openssl").ok_or("openssl is missing; Debian package openssl")?;
    let mut command = Command::new(openssl);
    let quiet = command.current_dir(folder).args(arguments).stderr(Stdio::null()).stdout(Stdio::null());
    match quiet.status().map_err(|error| error.to_string())? {
        done if done.success() => Ok(()),
        done => Err(format!("openssl {}: {done}", arguments.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What OpenSSL says to a client that knows the authority and connects to `localhost`.
    fn verify(certificate: &Certificate) -> (bool, String) {
        let mut command = Command::new(program("openssl").expect("it made them"));
        command.args(["verify", "-verify_hostname", "localhost", "-CAfile"]);
        let output = command.arg(&certificate.ca_file).arg(&certificate.certificate_file).output();
        let output = output.expect("openssl");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn each_flaw_is_the_one_it_is_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = match Certificate::make(folder.path()) {
            Err(reason) => return eprintln!("skipped: {reason}"),
            Ok(good) => good,
        };
        assert_eq!(verify(&good), (true, String::new()));
        let flaws =
            [(Flaw::Expired, "expired"), (Flaw::WrongHost, "hostname mismatch"), (Flaw::SelfSigned, "self")];
        for (flaw, word) in flaws {
            let (accepted, said) = verify(&Certificate::flawed(flaw, folder.path()).expect("made"));
            assert!(!accepted && said.to_lowercase().contains(word), "{flaw:?}: {said}");
        }
    }
}
