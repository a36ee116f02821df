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
    let nowhere = Private::open(&place.path().join("absent/homing")).unwrap_err().to_string();
    assert!(nowhere.contains("absent/homing") && nowhere.contains("XDG_RUNTIME_DIR"), "{nowhere}");
}

#[test]
fn the_directory_of_a_user_is_below_his_own_where_there_is_one() {
    let place = tempfile::tempdir().unwrap();
    let (named, temporary) = (place.path().join("run"), place.path().join("tmp"));
    fs::create_dir(&named).unwrap();
    let us = geteuid().as_raw();
    let of = |user: u32, named: &Path| standard_of(user, Some(named.to_owned()), temporary.clone());
    assert_eq!(of(us, &named), named.join("homing"));
    // Nobody has this number, nor a directory in /run/user.
    let nobody = 3_999_999_999;
    let last = temporary.join(format!("homing-{nobody}"));
    assert_eq!(of(nobody, &named), last, "somebody else's");
    assert_eq!(of(nobody, &place.path().join("absent")), last);
    assert_eq!(
        standard_of(nobody, None, "relative".into()),
        Path::new("/tmp").join(format!("homing-{nobody}"))
    );
    fs::write(place.path().join("file"), "").unwrap();
    assert_ne!(of(us, &place.path().join("file")), place.path().join("file/homing"), "no directory");
    assert_ne!(of(us, Path::new("relative")), Path::new("relative/homing"));
}

#[test]
fn a_broken_file_is_moved_aside_and_named() {
    let place = tempfile::tempdir().unwrap();
    let private = Private::open(place.path()).unwrap();
    let number = |text: &str| text.parse::<u32>().map_err(|error| error.to_string());
    let left = || private.left("state", number).unwrap();
    assert!(matches!(left(), Left::Nothing));
    private.write("state", "7").unwrap();
    assert!(matches!(left(), Left::Whole(7)));
    let aside = |number: u32| {
        let Left::Aside(why) = left() else { panic!("it is broken") };
        let path = place.path().join(format!("state.broken-{number}"));
        assert!(why.contains(path.to_str().unwrap()) && path.symlink_metadata().is_ok(), "{why}");
        assert!(matches!(left(), Left::Nothing), "it is in nobody's way");
    };
    private.write("state", "seven").unwrap();
    aside(1);
    fs::write(place.path().join("state"), [0xff, 0xfe]).unwrap();
    aside(2);
    fs::create_dir(place.path().join("state")).unwrap();
    aside(3);
    symlink("/etc/passwd", place.path().join("state")).unwrap();
    aside(4);
    fs::create_dir(place.path().join("state.new")).unwrap();
    private.write("state", "8").unwrap();
    assert!(matches!(left(), Left::Whole(8)) && place.path().join("state.new.broken-1").is_dir());
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
