//! Generates the message types, the method table and the embedded descriptors from `proto/`.

use prost::Message;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut names: Vec<PathBuf> = fs::read_dir("proto")?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    names.sort();
    let files = protox::compile(&names, ["proto"])?;
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    fs::write(out.join("methods.rs"), method_table(&files))?;
    prost_build::Config::new()
        .bytes(["."])
        .enable_type_names()
        .compile_fds(files)?;
    Ok(())
}

/// One line of the table per rpc: name, path, request type, answer type, streaming in, out.
fn method_table(files: &prost_types::FileDescriptorSet) -> String {
    let mut table = String::from("methods! {\n");
    for file in &files.file {
        for service in &file.service {
            for method in &service.method {
                let id = format!("{}{}", service.name(), method.name());
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                writeln!(
                    table,
                    "    {id}, {path:?}, {:?}, {:?}, {}, {};",
                    method.input_type().trim_start_matches('.'),
                    method.output_type().trim_start_matches('.'),
                    method.client_streaming(),
                    method.server_streaming(),
                )
                .expect("writing to a String cannot fail");
            }
        }
    }
    table.push_str("}\n");
    table
}
