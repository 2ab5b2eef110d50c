package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// packagingFile reads a file in packaging.
func packagingFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "packaging", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The packaged configuration file contains only valid settings, including those that are commented out.
func TestPackagedSettingsAreSettings(t *testing.T) {
	file := packagingFile(t, "config.toml")
	suggested := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(file, "$1")
	for _, text := range []string{file, suggested} {
		if _, err := parsed(t, text, "run"); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	if suggested == file {
		t.Error("the file suggests nothing")
	}
}

// The program accepts the command line of the systemd unit.
func TestUnitStartsTheNode(t *testing.T) {
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/tidings (run .*)$`).FindStringSubmatch(packagingFile(t, "systemd/tidings.service"))
	if m == nil {
		t.Fatal("the unit starts something else")
	}
	args := strings.Fields(strings.ReplaceAll(m[1], "/etc/tidings/config.toml", filepath.Join("..", "..", "packaging", "config.toml")))
	g := new(grammar)
	if _, err := parse(g, args, io.Discard); err != nil {
		t.Fatal(err)
	}
	if g.Run.Data != "${STATE_DIRECTORY}" {
		t.Errorf("the data directory is %q, and not the one that systemd makes", g.Run.Data)
	}
}

// The files for launchd and firewalld are valid XML, and firewalls open the port at which nodes listen.
func TestServiceFilesAreWellFormed(t *testing.T) {
	for _, name := range []string{"launchd/tidings.plist", "firewalld/tidings.xml"} {
		for d := xml.NewDecoder(strings.NewReader(packagingFile(t, name))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for name, ports := range map[string][]string{
		"ufw/tidings":           {"ports=4801\n"}, // UDP and TCP
		"firewalld/tidings.xml": {`protocol="udp" port="4801"`, `protocol="tcp" port="4801"`},
	} {
		for _, p := range ports {
			if !strings.Contains(packagingFile(t, name), p) {
				t.Errorf("%s lacks %s", name, p)
			}
		}
	}
}
