package structure_test

import (
	"os"
	"path/filepath"
	"testing"

	"tidings/lab/structure"
)

// Three files of which one calls back up: two arrows down, one up, whatever their names.
func TestUpwardArrowsAreCounted(t *testing.T) {
	dir := t.TempDir()
	for name, code := range map[string]string{
		"go.mod":      "module example\n\ngo 1.26\n",
		"a/z.go":      "package a\n\ntype Top struct{ low low }\n\nfunc (t *Top) Run() { t.low.step(t.back) }\n\nfunc (t *Top) back() { helper() }\n",
		"a/b.go":      "package a\n\ntype low struct{ x, y int }\n\nfunc (l *low) step(f func()) { f(); helper(); new(Top).Run() }\n",
		"a/c.go":      "package a\n\nfunc helper() {}\n",
		"a/c_test.go": "package a\n\nvar _ = Top{}\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := structure.Measure(dir)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	want := structure.Package{
		Path: "a", Lines: 15, Files: 3, Longest: 7, Arrows: 4, Upward: 1,
		MostFields: 2, FieldsOf: "low", MostMethods: 2, MethodsOf: "Top",
	}
	if found[0] != want {
		t.Errorf("%+v", found[0])
	}
}
