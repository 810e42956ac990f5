#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { processIo } from './io.js';
import { main } from './main.js';

// Whoever reads the output may stop early: `vring bench | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

// package.json lies two folders up, seen from src/cli as from dist/cli.
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
process.exitCode = await main(process.argv.slice(2), processIo(), version);
