// Package structure measures how the code is cut: lines, types with many fields or methods, and the arrows between the
// files of one package.
//
// An arrow runs from file A to file B if A names something that B declares: a function, a type, a method or a field. The
// files of a package that is easy to read can be put into an order in which most arrows run downwards, from what uses to
// what is used. Measure looks for the order with the fewest upward arrows.
package structure

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Package is the structure of one package, without its tests and generated files.
type Package struct {
	Path    string `json:"path"`
	Lines   int    `json:"lines"`
	Files   int    `json:"files"`
	Longest int    `json:"longest_file"` // lines of the longest file
	Arrows  int    `json:"arrows"`
	Upward  int    `json:"upward"`

	MostFields  int    `json:"most_fields"`
	FieldsOf    string `json:"fields_of"` // the type that has them
	MostMethods int    `json:"most_methods"`
	MethodsOf   string `json:"methods_of"`
}

// Measure measures the packages of the module in root whose folder is among dirs; all if there are none. It leaves out
// nested modules.
func Measure(root string, dirs ...string) ([]Package, error) {
	var found []Package
	set := token.NewFileSet()
	imports, err := compiled(set, root, dirs)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := filepath.Base(name); name != root {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || base == "testdata" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if len(dirs) > 0 && !slices.Contains(dirs, filepath.ToSlash(rel)) {
			return nil
		}
		p, err := measure(set, imports, name)
		if p.Files > 0 {
			p.Path = filepath.ToSlash(rel)
			found = append(found, p)
		}
		return err
	})
	return found, err
}

// compiled returns an importer of what the packages import, as the go command has compiled it.
func compiled(set *token.FileSet, root string, dirs []string) (types.Importer, error) {
	args := []string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}
	for _, d := range dirs {
		args = append(args, "./"+d)
	}
	if len(dirs) == 0 {
		args = append(args, "./...")
	}
	c := exec.Command("go", args...)
	c.Dir = root
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w", root, err)
	}
	exported := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exported[name] = file
	}
	return importer.ForCompiler(set, "gc", func(name string) (io.ReadCloser, error) {
		if exported[name] == "" {
			return nil, fmt.Errorf("%s was not compiled", name)
		}
		return os.Open(exported[name])
	}), nil
}

func measure(set *token.FileSet, imports types.Importer, dir string) (p Package, err error) {
	listed, err := build.ImportDir(dir, 0)
	if err != nil {
		if _, none := errors.AsType[*build.NoGoError](err); none {
			return p, nil
		}
		return p, fmt.Errorf("read %s: %w", dir, err)
	}
	var files []*ast.File
	for _, name := range listed.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return p, fmt.Errorf("read %s: %w", dir, err)
		}
		if ast.IsGenerated(f) {
			continue
		}
		files = append(files, f)
		lines := set.File(f.FileStart).LineCount()
		p.Files, p.Lines, p.Longest = p.Files+1, p.Lines+lines, max(p.Longest, lines)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	// An import that cannot be resolved costs some arrows, no more.
	config := types.Config{Importer: imports, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(dir, set, files, info)
	p.types(pkg)
	p.Arrows, p.Upward = count(arrows(set, files, info))
	return p, nil
}

// types finds the types with the most fields and methods. An embedded field counts as one.
func (p *Package) types(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		t, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() {
			continue
		}
		named, ok := t.Type().(*types.Named)
		if !ok {
			continue
		}
		if n := named.NumMethods(); n > p.MostMethods {
			p.MostMethods, p.MethodsOf = n, name
		}
		if s, ok := named.Underlying().(*types.Struct); ok && s.NumFields() > p.MostFields {
			p.MostFields, p.FieldsOf = s.NumFields(), name
		}
	}
}

// arrows returns for each file the files that it uses, by their places in files.
func arrows(set *token.FileSet, files []*ast.File, info *types.Info) []map[int]bool {
	place := map[string]int{}
	for i, f := range files {
		place[set.Position(f.FileStart).Filename] = i
	}
	of := make([]map[int]bool, len(files))
	for i, f := range files {
		of[i] = map[int]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if o := info.Uses[id]; o != nil && o.Pos().IsValid() {
				if j, ok := place[set.Position(o.Pos()).Filename]; ok && j != i {
					of[i][j] = true
				}
			}
			return true
		})
	}
	return of
}

// count returns the number of arrows, and how many of them run upwards in the best order that was found: it begins with
// the files that use most and are used least, and moves one file at a time as long as that helps.
func count(arrows []map[int]bool) (all, upward int) {
	n := len(arrows)
	order := make([]int, n)
	balance := make([]int, n)
	for i, of := range arrows {
		order[i] = i
		all += len(of)
		for j := range of {
			balance[i]++
			balance[j]--
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(balance[b], balance[a]) })
	for best := upwardIn(order, arrows); ; {
		better := false
		for from := range n {
			for to := range n {
				tried := slices.Clone(order)
				moved := tried[from]
				tried = slices.Insert(slices.Delete(tried, from, from+1), to, moved)
				if u := upwardIn(tried, arrows); u < best {
					order, best, better = tried, u, true
				}
			}
		}
		if !better {
			return all, best
		}
	}
}

func upwardIn(order []int, arrows []map[int]bool) (upward int) {
	at := make([]int, len(order))
	for i, f := range order {
		at[f] = i
	}
	for i, of := range arrows {
		for j := range of {
			if at[j] < at[i] {
				upward++
			}
		}
	}
	return upward
}

// String is a row of the table.
func (p Package) String() string {
	share := "-"
	if p.Arrows > 0 {
		share = fmt.Sprintf("%d%%", (100*p.Upward+p.Arrows/2)/p.Arrows)
	}
	return strings.Join([]string{
		p.Path, fmt.Sprint(p.Lines), fmt.Sprint(p.Files), fmt.Sprint(p.Longest),
		fmt.Sprintf("%d of %d", p.Upward, p.Arrows), share,
		fmt.Sprintf("%d %s", p.MostFields, p.FieldsOf), fmt.Sprintf("%d %s", p.MostMethods, p.MethodsOf),
	}, "\t")
}
