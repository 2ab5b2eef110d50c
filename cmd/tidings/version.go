package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// A versionCommand is "tidings version".
type versionCommand struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Run prints the version.
func (c *versionCommand) Run(s streams) error {
	if c.JSON {
		return printJSON(s.out, release())
	}
	return printVersion(s.out)
}

// printVersion prints the version for people.
func printVersion(w io.Writer) error {
	r := release()
	build := r.Go
	if r.Commit != "" {
		build = "commit " + r.Commit + ", " + build
	}
	_, err := fmt.Fprintf(w, "tidings %s (%s)\n", r.Version, build)
	return err
}

// version and commit are set by the linker when a package is built (packaging/build.sh). They are empty in every
// other build.
var version, commit string

// commitDigits is how many digits of a commit's hash are shown. Git itself shows as many in large projects.
const commitDigits = 12

// A releaseInfo describes a build.
type releaseInfo struct {
	Version string `json:"version"`          // of the package or module; otherwise devel or devel-COMMIT
	Commit  string `json:"commit,omitempty"` // first digits of the commit's hash, followed by + if files were changed; "" if not known
	Go      string `json:"go"`
	System  string `json:"system"`
}

// release returns the values set by the linker, and otherwise those recorded by the compiler.
func release() releaseInfo {
	r := releaseInfo{Version: version, Commit: commit, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	if r.Commit == "" {
		r.Commit = buildCommit(info.Settings)
	}
	if r.Version == "" {
		r.Version = versionOf(info.Main.Version, r.Commit)
	}
	return r
}

// buildCommit returns the commit recorded by the compiler, or "".
func buildCommit(settings []debug.BuildSetting) string {
	var revision, changed string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= commitDigits:
			revision = s.Value[:commitDigits]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

// versionOf returns the version of a build that is no package.
func versionOf(module, commit string) string {
	switch {
	case module != "" && module != "(devel)":
		return strings.TrimPrefix(module, "v")
	case commit != "":
		return "devel-" + commit
	}
	return "devel"
}
