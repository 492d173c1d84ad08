// A Kinesis emulator (kinesis-mock), on a free loopback port. The argument is the folder that it is installed in.
//
// Prints "port NUMBER" once connections are taken. Stops when standard input ends, so that it never outlives the test process.
"use strict";

const net = require("node:net");
const path = require("node:path");

// Its certificate is looked for in the working directory.
process.chdir(path.join(process.argv[2], "node_modules", "kinesis-local"));

// What changes a stream takes no time; shards may be many.
const settings = { SHARD_LIMIT: "10000", LOG_LEVEL: "ERROR", KINESIS_MOCK_PLAIN_PORT: "1", KINESIS_MOCK_TLS_PORT: "2" };
for (const change of ["CREATE_STREAM", "DELETE_STREAM", "MERGE_SHARDS", "SPLIT_SHARD", "UPDATE_SHARD_COUNT"]) {
  settings[`${change}_DURATION`] = "0ms";
}
Object.assign(process.env, settings);

// It takes connections from everywhere, and does not say on which port where it may choose: the port that it asks for tells its two servers apart.
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, listening) {
  if (port === 1) {
    this.once("listening", () => process.stdout.write(`port ${this.address().port}\n`));
  }
  return listen.call(this, { port: 0, host: "127.0.0.1", backlog: 511 }, listening);
};

process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
require(process.cwd());
