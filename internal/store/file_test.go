package store

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestFileIsWrittenWholeAndForItsOwner(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "small")
	for _, text := range []string{"a longer text", "a text", ""} {
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("wrote %q, read %q, %v", text, got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestFileThatCannotBeWrittenStaysAsItWas(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "nowhere", "small"), nil); err == nil {
		t.Error("written into a folder that does not exist")
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(taken, []byte("text")); err == nil {
		t.Error("written over a folder")
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}
