import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Finding } from './scenario.js';
import type { Trial } from './trial.js';

/** A finding as it is saved: enough to see it again, and lines that say what happens. */
export interface SavedTrial extends Trial {
  version: 1;
  finding: Finding;
  trace: string[];
}

const FOLDER = fileURLToPath(new URL('../../build/fuzz/', import.meta.url));

/** Saves a finding; returns the path, relative to where we are. */
export function saveTrial(trial: Trial, finding: Finding, trace: string[]): string {
  mkdirSync(FOLDER, { recursive: true });
  const path = `${FOLDER}${trial.seed}.json`;
  const { seed, config, ops } = trial;
  const lines = (list: unknown[]) => `[\n    ${list.map((one) => JSON.stringify(one)).join(',\n    ')}\n  ]`;
  // One operation a line: for people.
  writeFileSync(
    path,
    `{
  "version": 1,
  "seed": ${seed},
  "config": ${JSON.stringify(config)},
  "finding": ${JSON.stringify(finding)},
  "ops": ${lines(ops)},
  "trace": ${lines(trace)}
}
`,
  );
  return relative(process.cwd(), path);
}

export function readTrial(path: string): SavedTrial {
  const saved = JSON.parse(readFileSync(path, 'utf8')) as SavedTrial;
  if (saved.version !== 1 || !Array.isArray(saved.ops)) throw new Error(`${path} is no saved finding`);
  return saved;
}
