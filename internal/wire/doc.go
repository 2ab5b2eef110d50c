// Package wire defines what the messages of all layers have in common.
//
//	Frame       one message of one layer             AppendFrame, ParseFrame
//	stream      frames, each preceded by its length  AppendDelimited, ReadDelimited
//	Envelope    a payload with its signer            Signer, Verifier
//	Hello       the handshake that opens a stream    Answer, CheckReply
//	Network     the parameters all nodes share       Network, Hash
//
// The wire specification of this package is wirepb/wire.proto. Each layer has its own beside it.
// Messages are protobuf. Signed data travels as the exact bytes that were signed, and is never
// encoded again for verification.
//
// The layers define what their messages mean, and overlay/libp2p transports them.
package wire

//go:generate protoc --proto_path=wirepb --go_out=wirepb --go_opt=paths=source_relative wirepb/wire.proto
