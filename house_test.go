// Package tidings_test keeps the house in order: every package stands on a
// storey and imports only from storeys below its own, what stands below the
// edge is pure (and so is sim, where one seed gives one run), and every package
// says in its comment what it is for.
package tidings_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// storeys is the house as ARCHITECTURE.md draws it. Generated code (x/xpb) lies in the cellar
// without being listed. The laboratory is a module of its own, above all of it.
var storeys = []struct {
	floor    int
	packages string
}{
	{7, "cmd/tidings"},
	{6, "internal/daemon internal/publisher internal/authority internal/deployment"},
	{5, "internal/loop internal/fetch internal/store internal/news internal/notify internal/icons internal/xmpp internal/longtest internal/check/checktest internal/daemon/origin overlay/libp2p overlay/libp2p/attacker proxy sim sim/plant"},
	{corridor, "internal/node"},
	{3, "corona feedtree cobra/firehose cobra/tiers"},
	{2, "overlay/scribe overlay/owner overlay/wedge overlay/sums overlay/relay cobra"},
	{1, "overlay difference cobra/query corona/websub"},
	{0, "honeycomb cobra/index cobra/provision internal/wire internal/feed difference/page internal/script cobra/words"},
	{cellar, "internal/env internal/signature internal/charset internal/slab internal/check internal/selection internal/markup internal/plot internal/locale"},
}

const (
	corridor = 4  // the highest of the pure storeys
	cellar   = -1 // what the vocabulary itself is made of
)

// impure names the packages that pure ones do not import, nor what lies below
// them, and says what to do instead.
var impure = []struct{ path, instead string }{
	{"crypto/rand", "roll env.Rand"},
	{"hash/maphash", "its seeds differ from run to run; use hash/fnv"},
	{"net/http", "ask env.Fetcher"},
	{"net", "ask env.Network (net/url and net/netip are pure)"},
	{"os", "ask env.Store; files and flags are for the edge"},
	{"sync", "a node has one owner and needs no lock"},
	{"syscall", "ask a door of env.Env"},
}

// pureBelow are the packages below an impure one that are pure.
var pureBelow = []string{"net/netip", "net/url"}

// impureNames are the names that pure packages do not use of pure packages.
var impureNames = []struct{ path, names, instead string }{
	{"context", "AfterFunc WithDeadline WithDeadlineCause WithTimeout WithTimeoutCause", "return the time from Run"},
	{"crypto/ed25519", "GenerateKey", "roll env.Rand and use NewKeyFromSeed"},
	{"time", "Now Since Until", "ask env.Clock"},
	{"time", "After AfterFunc NewTicker NewTimer Sleep Tick", "ask env.Clock, and return from Run when to go on"},
}

// dice are the names of math/rand that do not roll the dice all share.
const dice = "ChaCha8 New NewChaCha8 NewPCG NewSource NewZipf PCG Rand Source Source64 Zipf"

// onlyIn says which packages alone import what lies below a path.
var onlyIn = []struct{ path, packages string }{
	{"github.com/libp2p", "overlay/libp2p overlay/libp2p/attacker"},
	{"github.com/multiformats", "overlay/libp2p overlay/libp2p/attacker internal/daemon"},
	{"mellium.im", "internal/xmpp"},
	{"filippo.io/edwards25519", "internal/signature"},
	{module + "/sim/plant", "tests"}, // and what sim/planted.patch makes of the product
}

const module = "tidings"

// TestHouse reads the sources of the house, whatever system or tag they are for.
func TestHouse(t *testing.T) {
	set := token.NewFileSet()
	for dir, names := range sourcesOf(t) {
		var files []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		for _, fault := range inspect(set, dir, files) {
			t.Error(fault)
		}
		logSizes(t, dir, files)
	}
	if len(large) > 5 {
		t.Errorf("%d types may be larger than the others: five may", len(large))
	}
}

// logSizes prints the types with the most fields and methods of a package below the wiring.
func logSizes(t *testing.T, dir string, files []*ast.File) {
	if floor, _ := floorOf(dir); floor > corridor || generated(dir) {
		return
	}
	var fields, methods string
	var most size
	for name, n := range sizesOf(files) {
		if name == "Config" || name == "Stats" {
			continue
		}
		if n.fields > most.fields || n.fields == most.fields && name < fields {
			most.fields, fields = n.fields, name
		}
		if n.methods > most.methods || n.methods == most.methods && name < methods {
			most.methods, methods = n.methods, name
		}
	}
	t.Logf("%-20s most fields: %2d %-20s most methods: %2d %s", dir, most.fields, fields, most.methods, methods)
}

// sourcesOf returns the files of each package of this module, without tests. It walks the folders itself:
// go test then knows that a new package is a reason to run the tests again.
func sourcesOf(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != ".":
			_, nested := os.Stat(path.Join(name, "go.mod"))
			if nested == nil || base == "testdata" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
		case strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go"):
			packages[path.Dir(name)] = append(packages[path.Dir(name)], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// inspect returns what is wrong with a package.
func inspect(set *token.FileSet, dir string, files []*ast.File) (faults []string) {
	floor, ok := floorOf(dir)
	if !ok {
		return []string{dir + " stands on no storey: give it one here and in ARCHITECTURE.md"}
	}
	if !generated(dir) && !slices.ContainsFunc(files, func(f *ast.File) bool { return f.Doc != nil }) {
		faults = append(faults, dir+" has no package comment: say what it is for, then what it leaves to others")
	}
	if !generated(dir) {
		faults = append(faults, inspectSizes(set, dir, floor, files)...)
		if !slices.Contains(testWorlds, dir) {
			faults = append(faults, inspectConfigs(set, files)...)
		}
	}
	for _, f := range files {
		fault := func(n ast.Node, format string, args ...any) {
			faults = append(faults, set.Position(n.Pos()).String()+": "+fmt.Sprintf(format, args...))
		}
		inspectImports(f, dir, floor, fault)
		if (floor <= corridor || dir == "sim") && !generated(dir) {
			inspectPurity(set, f, fault)
		}
	}
	return faults
}

type faultFunc func(at ast.Node, format string, args ...any)

// Bounds of size. Below the wiring a type has at most mostFields fields and mostMethods methods, so that a reader can
// hold it in mind; Config and Stats are lists of settings and counters. A file has at most mostLines lines anywhere.
const (
	mostFields, mostMethods = 20, 45
	mostLines               = 500
)

// large are the types that may have more fields or methods, with the reason. There may be five.
var large = map[string]string{
	"overlay.peer":          "the one record of another node; it is small because its fields are packed",
	"feedtree.Subscription": "a list of facts for readers, without methods",
}

// A size is the number of fields and methods of a type.
type size struct{ fields, methods int }

// sizesOf returns the sizes of the types of a package. An embedded field counts as one.
func sizesOf(files []*ast.File) map[string]size {
	of := map[string]size{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					t, _ := spec.(*ast.TypeSpec)
					if t == nil {
						continue
					}
					if s, ok := t.Type.(*ast.StructType); ok {
						n := of[t.Name.Name]
						n.fields = s.Fields.NumFields()
						of[t.Name.Name] = n
					}
				}
			case *ast.FuncDecl:
				if d.Recv == nil {
					continue
				}
				at := d.Recv.List[0].Type
				if star, ok := at.(*ast.StarExpr); ok {
					at = star.X
				}
				if list, ok := at.(*ast.IndexExpr); ok { // a generic type
					at = list.X
				}
				if name, ok := at.(*ast.Ident); ok {
					n := of[name.Name]
					n.methods++
					of[name.Name] = n
				}
			}
		}
	}
	return of
}

// inspectSizes finds what is too large for a reader.
func inspectSizes(set *token.FileSet, dir string, floor int, files []*ast.File) (faults []string) {
	for _, f := range files {
		if lines := set.File(f.FileStart).LineCount(); lines > mostLines {
			faults = append(faults, fmt.Sprintf("%s has %d lines, %d at most: split it by what it is about", set.Position(f.FileStart).Filename, lines, mostLines))
		}
	}
	if floor > corridor {
		return faults
	}
	for name, n := range sizesOf(files) {
		if full := path.Base(dir) + "." + name; name == "Config" || name == "Stats" || large[full] != "" {
			continue
		}
		if n.fields > mostFields || n.methods > mostMethods {
			faults = append(faults, fmt.Sprintf("%s.%s has %d fields and %d methods, %d and %d at most: make components of it", dir, name, n.fields, n.methods, mostFields, mostMethods))
		}
	}
	return faults
}

// testWorlds are the packages whose configurations describe the world around the product: networks and origins that
// do not exist.
var testWorlds = []string{"sim", "internal/script"}

// inspectConfigs finds exported configurations without a Validate method.
func inspectConfigs(set *token.FileSet, files []*ast.File) (faults []string) {
	configs := map[string]token.Pos{}
	for _, f := range files {
		for _, d := range f.Decls {
			d, _ := d.(*ast.GenDecl)
			if d == nil {
				continue
			}
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.IsExported() && strings.HasSuffix(t.Name.Name, "Config") {
					if _, ok := t.Type.(*ast.StructType); ok {
						configs[t.Name.Name] = t.Pos()
					}
				}
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil && d.Name.Name == "Validate" {
				if at, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
					delete(configs, at.Name)
				}
			}
		}
	}
	for name, at := range configs {
		faults = append(faults, fmt.Sprintf("%s: %s has no method Validate() error: check its fields there", set.Position(at), name))
	}
	return faults
}

func inspectImports(f *ast.File, dir string, floor int, fault faultFunc) {
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		its, own := strings.CutPrefix(p, module+"/")
		below, _ := floorOf(its)
		switch foreign := strings.Contains(p, "."); {
		case generated(dir) && (own || foreign && !within(p, "google.golang.org/protobuf")):
			fault(spec, "generated code imports protobuf alone, not %s", p)
		case own && below >= floor:
			fault(spec, "%s (storey %d) imports %s (storey %d): let a storey above join them", dir, floor, its, below)
		}
		for _, o := range onlyIn {
			if within(p, o.path) && !slices.Contains(strings.Fields(o.packages), dir) {
				fault(spec, "only %s may import %s", o.packages, p)
			}
		}
	}
}

func inspectPurity(set *token.FileSet, f *ast.File, fault faultFunc) {
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		for _, i := range impure {
			if within(p, i.path) && !slices.Contains(pureBelow, p) {
				fault(spec, "not %s: %s", p, i.instead)
				break
			}
		}
		if spec.Name != nil && spec.Name.Name == "." {
			fault(spec, "import . %q hides whose names are used: name it", p)
		}
	}
	// The checker of types tells the package time from a variable time. What it
	// cannot know, having no imports, is of no interest here.
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	_, _ = checker.Check(f.Name.Name, set, []*ast.File{f}, &info)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n, "not go: a node has one owner; hand pure work to env.Worker")
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			pkg, ok := info.Uses[x].(*types.PkgName)
			if !ok {
				break
			}
			p, name := pkg.Imported().Path(), n.Sel.Name
			for _, i := range impureNames {
				if p == i.path && slices.Contains(strings.Fields(i.names), name) {
					fault(n, "not %s.%s: %s", pkg.Imported().Name(), name, i.instead)
				}
			}
			if within(p, "math/rand") && !slices.Contains(strings.Fields(dice), name) {
				fault(n, "not rand.%s, which rolls the dice all share: roll env.Rand", name)
			}
		}
		return true
	})
}

// floorOf returns the storey of the package in a folder.
func floorOf(dir string) (floor int, ok bool) {
	if generated(dir) {
		return cellar, true
	}
	for _, s := range storeys {
		if slices.Contains(strings.Fields(s.packages), dir) {
			return s.floor, true
		}
	}
	return 0, false
}

func generated(dir string) bool { return path.Base(dir) == path.Base(path.Dir(dir))+"pb" }

func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// emptyPackages imports every package as an empty one of its usual name.
type emptyPackages struct{}

func (emptyPackages) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(strings.TrimSuffix(p, "/v2")))
	pkg.MarkComplete()
	return pkg, nil
}

// TestHouseRulesBite plants one fault of each kind.
func TestHouseRulesBite(t *testing.T) {
	const rand1, rand2, now = `import "math/rand"; `, `import "math/rand/v2"; `, `import "time"; var _ = time.`
	for _, c := range []struct{ dir, code, want string }{
		{"overlay", `import "tidings/internal/wire"`, ""},
		{"overlay", "type t struct { a, b int; " + strings.Repeat("_ int;", mostFields-2) + "}", ""},
		{"overlay", "type t struct { a, b int; " + strings.Repeat("_ int;", mostFields-1) + "}", "t has 21 fields and 0 methods"},
		{"overlay", "type Stats struct { " + strings.Repeat("_ int;", mostFields+1) + "}", ""},
		{"internal/daemon", "type t struct { " + strings.Repeat("_ int;", mostFields+1) + "}", ""},
		{"overlay", "type t int;" + strings.Repeat("func (t) _() {};", mostMethods), ""},
		{"overlay", "type t[T any] struct{};" + strings.Repeat("func (x *t[T]) _() {};", mostMethods+1), "t has 0 fields and 46 methods"},
		{"internal/daemon", strings.Repeat("\n", mostLines-1), ""},
		{"internal/daemon", strings.Repeat("\n", mostLines), "split it"},
		{"overlay", "type Config struct{}; func (Config) Validate() error", ""},
		{"internal/daemon", "type NodeConfig struct{}; func (Config) Validate() error", "NodeConfig has no method Validate"},
		{"sim", "type Config struct{}", ""},
		{"overlay", `import "net/url"; import "net/netip"`, ""},
		{"overlay", `import "time"; func f(time clock) { time.Now() }`, ""},
		{"overlay", `import "time"; var _ = time.Unix(0, time.Hour)`, ""},
		{"overlay", rand2 + `var _ = rand.New(rand.NewPCG(1, 2)); func f(rand *rand.Rand) { rand.IntN(6) }`, ""},
		{"internal/loop", `import ("net"; "os"; "sync"; "time"); func f() { go time.Sleep(1) }`, ""},
		{"overlay/libp2p", `import "github.com/libp2p/go-libp2p"; import "github.com/multiformats/go-multiaddr"`, ""},
		{"overlay/overlaypb", `import "sync"; import "google.golang.org/protobuf/proto"`, ""},

		{"attic", ``, "no storey"},
		{"overlay/attic", ``, "no storey"},
		{"overlay", `import "tidings/overlay/scribe"`, "overlay (storey 1) imports overlay/scribe (storey 2)"},
		{"overlay/scribe", `import "tidings/overlay/owner"`, "let a storey above join them"},
		{"corona", `import "tidings/feedtree"`, "let a storey above join them"},
		{"sim", `import "tidings/internal/store"`, "let a storey above join them"},
		{"overlay/overlaypb", `import "tidings/internal/env"`, "protobuf alone"},
		{"overlay/overlaypb", `import "example.org/thing"`, "protobuf alone"},
		{"overlay", `import "github.com/libp2p/go-libp2p/core/peer"`, "only overlay/libp2p"},
		{"internal/daemon", `import "github.com/libp2p/go-libp2p"`, "only overlay/libp2p"},
		{"internal/loop", `import "github.com/multiformats/go-multiaddr"`, "only overlay/libp2p overlay/libp2p/attacker internal/daemon"},

		{"overlay", `import "tidings/sim/plant"`, "only tests may"},
		{"cmd/tidings", `import "tidings/sim/plant"`, "only tests may"},

		{"overlay", `import "net"`, "ask env.Network"},
		{"overlay", `import "net/http/httptest"`, "ask env.Fetcher"},
		{"overlay", `import "os/exec"`, "ask env.Store"},
		{"overlay", `import "sync/atomic"`, "needs no lock"},
		{"overlay", `import "crypto/rand"`, "roll env.Rand"},
		{"overlay", `import "hash/maphash"`, "differ from run to run"},
		{"overlay", `import "syscall"`, "ask a door"},
		{"overlay", `import . "time"`, "name it"},
		{"overlay", `func f() { go f() }`, "hand pure work to env.Worker"},
		{"overlay", now + `Now`, "not time.Now: ask env.Clock"},
		{"overlay", now + `Since(then)`, "ask env.Clock"},
		{"overlay", now + `Until(then)`, "ask env.Clock"},
		{"overlay", now + `Sleep`, "return from Run"},
		{"overlay", now + `After(1)`, "return from Run"},
		{"overlay", now + `AfterFunc(1, nil)`, "return from Run"},
		{"overlay", now + `NewTimer(1)`, "return from Run"},
		{"overlay", now + `NewTicker(1)`, "return from Run"},
		{"overlay", now + `Tick(1)`, "return from Run"},
		{"overlay", `import clock "time"; var _ = clock.Now()`, "not time.Now"},
		{"sim", now + `Now`, "not time.Now"},
		{"overlay", `import "context"; var _ = context.WithTimeout`, "return the time from Run"},
		{"overlay", `import "crypto/ed25519"; var _ = ed25519.GenerateKey`, "NewKeyFromSeed"},
		{"overlay", rand1 + `var _ = rand.Intn(6)`, "not rand.Intn"},
		{"overlay", rand1 + `func f() { rand.Seed(1) }`, "not rand.Seed"},
		{"overlay", rand2 + `var roll = rand.IntN`, "not rand.IntN"},
		{"overlay", rand2 + `var _ = rand.N[int](6)`, "not rand.N"},
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "f.go", "// Comment.\npackage p; "+c.code, parser.ParseComments)
		if err != nil {
			t.Fatalf("%s: %v", c.code, err)
		}
		got := strings.Join(inspect(set, c.dir, []*ast.File{f}), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\ngot:  %s\nwant: %s", c.dir, c.code, got, c.want)
		}
	}
	set := token.NewFileSet()
	f, _ := parser.ParseFile(set, "f.go", "package p", parser.ParseComments)
	if got := inspect(set, "overlay", []*ast.File{f}); len(got) != 1 || !strings.Contains(got[0], "no package comment") {
		t.Errorf("a package without a comment: %q", got)
	}
}
