package tidings_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents returns the texts of all documents of the project, by their paths.
func documents(t *testing.T) map[string]string {
	t.Helper()
	of := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base == "bin" || base == "out" || base[0] == '.' && base != ".github"):
			return fs.SkipDir
		case !d.IsDir() && path.Ext(name) == ".md":
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			of[name] = string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// TestDocumentsAreShort keeps documents at a length that their readers have time for.
func TestDocumentsAreShort(t *testing.T) {
	const kb = 1 << 10
	sizes := []struct {
		pattern string
		most    int
	}{
		{"README.md", 6 * kb},
		{"ARCHITECTURE.md", 15 * kb},
		{"CONTRIBUTING.md", 5 * kb},
		{"docs/guide/getting-started.md", 6 * kb},
		{"docs/guide/*.md", 8 * kb},
		{"docs/decisions/*.md", 4 * kb},
	}
	for name, text := range documents(t) {
		for _, s := range sizes {
			if ok, _ := path.Match(s.pattern, name); ok {
				if len(text) > s.most {
					t.Errorf("%s has %d bytes, and may have %d", name, len(text), s.most)
				}
				break
			}
		}
		if name == "docs/design/glossary.md" {
			if n := strings.Count(text, "\n| **"); n > 40 {
				t.Errorf("%s has %d words, and may have 40", name, n)
			}
		}
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
	linkTo    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	filePath  = regexp.MustCompile("^`((?:[a-z0-9_.-]+/)+[A-Za-z0-9_.-]+\\.(?:go|md|sh|yml|json|proto|txt))`$")
)

// anchor returns what a heading is called in a link.
func anchor(heading string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// TestLinksLeadSomewhere follows each link from one document to another, and looks for each file of the
// project that a document names.
func TestLinksLeadSomewhere(t *testing.T) {
	texts := documents(t)
	for name, text := range texts {
		prose := codeBlock.ReplaceAllString(text, "")
		for _, l := range linkTo.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose, ""), -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			file, part, _ := strings.Cut(l[1], "#")
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", name, l[1])
				continue
			}
			if part == "" {
				continue
			}
			there := slices.ContainsFunc(heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(texts[to], ""), -1),
				func(h []string) bool { return anchor(h[1]) == part })
			if !there {
				t.Errorf("%s links to %s, and no heading there is called so", name, l[1])
			}
		}
		if name == "CHANGELOG.md" {
			continue // which names files of former releases
		}
		for _, span := range codeSpan.FindAllString(prose, -1) {
			f := filePath.FindStringSubmatch(span)
			if f == nil {
				continue
			}
			if _, err := os.Stat(f[1]); err != nil {
				t.Errorf("%s names %s, which is not there", name, f[1])
			}
		}
	}
}

// TestDocumentsReferToTheProjectAlone looks for what a reader of the repository does not have.
func TestDocumentsReferToTheProjectAlone(t *testing.T) {
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"DESIGN.md", "DESIGN ", "shared/", checkout + "/"} // and no path of the machine where it was written
	for name, text := range documents(t) {
		for _, s := range elsewhere {
			if strings.Contains(text, s) {
				t.Errorf("%s refers to %q, which is not part of the project", name, s)
			}
		}
	}
}

// TestArchitectureShowsTheHouse compares the table of layers in ARCHITECTURE.md with the layers that
// TestHouse keeps.
func TestArchitectureShowsTheHouse(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| (-?\\d) \\| `([^`]+)` \\|")
	shown := map[string]string{}
	for _, r := range row.FindAllStringSubmatch(documents(t)["ARCHITECTURE.md"], -1) {
		shown[r[2]] = r[1]
		if _, err := os.Stat(r[2]); err != nil {
			t.Errorf("ARCHITECTURE.md shows %s, which is not there", r[2])
		}
	}
	for dir := range sourcesOf(t) {
		floor, ok := floorOf(dir)
		if !ok || generated(dir) {
			continue // TestHouse says which packages have no layer
		}
		if got, want := shown[dir], fmt.Sprint(floor); got != want {
			t.Errorf("ARCHITECTURE.md shows %s on layer %q; house_test.go has it on layer %s", dir, got, want)
		}
	}
}
