// Package wedge gives the members nearest to a key their ranks.
package wedge

//go:generate protoc --proto_path=wedgepb --go_out=wedgepb --go_opt=paths=source_relative wedgepb/wedge.proto
