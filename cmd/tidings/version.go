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

// Run prints the release.
func (c *versionCommand) Run(s streams) error {
	if c.JSON {
		return printJSON(s.out, release())
	}
	return printVersion(s.out)
}

// printVersion prints the release for people.
func printVersion(w io.Writer) error {
	r := release()
	_, err := fmt.Fprintf(w, "tidings %s (%s)\n", r.Version, r.Go)
	return err
}

// A releaseInfo says what was built.
type releaseInfo struct {
	Version string `json:"version"` // of the module; devel, or devel-COMMIT, if it is none
	Go      string `json:"go"`
	System  string `json:"system"`
}

// release reads what the compiler wrote down.
func release() releaseInfo {
	r := releaseInfo{Version: "devel", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		r.Version = strings.TrimPrefix(v, "v")
		return r
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			r.Version = "devel-" + s.Value[:12]
		}
	}
	return r
}
