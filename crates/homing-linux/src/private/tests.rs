use super::*;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn it_is_made_for_this_user_alone_and_never_where_all_write() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("homing");
    assert!(Private::there(&path).unwrap().is_none());
    let private = Private::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    private.write("state", "x").unwrap();
    private.write("state", "y").unwrap();
    assert_eq!((private.read("state").unwrap().as_deref(), mode(&path.join("state"))), (Some("y"), 0o600));
    private.remove("state").unwrap();
    private.remove("state").unwrap();
    assert_eq!((private.read("state").unwrap(), fs::read_dir(&path).unwrap().count()), (None, 0));
    assert!(!standard().starts_with(std::env::temp_dir()));
    let nowhere = Private::open(&place.path().join("absent/homing")).unwrap_err().to_string();
    assert!(nowhere.contains("absent/homing") && nowhere.contains("XDG_RUNTIME_DIR"), "{nowhere}");
}

#[test]
fn directories_that_others_could_have_filled_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("homing");
    let refused = |why: &str| {
        let error = Private::open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains(why) && text.contains("remove it"), "{text}");
    };
    fs::create_dir(&path).unwrap();
    for open in [0o777, 0o1777, 0o770, 0o702] {
        allow(&path, open);
        refused("for others to write");
    }
    allow(&path, 0o755);
    Private::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700, "what could only be looked into is closed");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "").unwrap();
    refused("not a directory");
    fs::remove_file(&path).unwrap();
    symlink(place.path(), &path).unwrap();
    refused("not a directory");
    if geteuid().is_root() {
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        refused("user 12345's");
    } else {
        eprintln!("SKIPPED: a directory of another user: only root can make one");
    }
}

#[test]
fn files_that_others_could_have_written_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let private = Private::open(place.path()).unwrap();
    let file = place.path().join("state");
    let refused = |why: &str| {
        let error = private.read("state").unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        let again = Private::open(place.path()).unwrap();
        assert!(again.lock("state", |_| String::new()).is_err(), "nor is it a lock: {why}");
    };
    fs::write(&file, "x").unwrap();
    allow(&file, 0o666);
    refused("for others to write");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused("state is");
    fs::remove_dir(&file).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(fifo.success());
    refused("not a regular file");
    fs::remove_file(&file).unwrap();
    let elsewhere = place.path().join("elsewhere");
    fs::write(&elsewhere, "x").unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(private.read("state").unwrap_err().to_string().contains("not a file of its own"));
    private.write("state", "new").unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "x", "what the link named is as it was");
    if geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
        refused("user 12345's");
    } else {
        eprintln!("SKIPPED: a file of another user: only root can make one");
    }
}
