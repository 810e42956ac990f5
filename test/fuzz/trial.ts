import { type Config, chooseConfig } from './config.js';
import { chooseOps, type Op } from './ops.js';
import { mix, Random } from './prng.js';
import { type Finding, Scenario } from './scenario.js';
import type { Place } from './world.js';

/** Operations between two looks at all bytes. */
const BATCH = 12;

/** A configuration with a list of operations: all that a finding needs to be seen again. */
export interface Trial {
  /** Seed that the trial was made from. */
  seed: number;
  config: Config;
  ops: Op[];
}

/** Seed of scenario `index` of a campaign. */
export const scenarioSeed = (seed: number, index: number): number => mix(mix(seed, 1), index);

export function makeTrial(seed: number): Trial {
  const random = new Random(seed);
  const config = chooseConfig(random);
  return { seed, config, ops: chooseOps(config, random) };
}

export interface RunOptions {
  /** Operations between two looks at all bytes. */
  every?: number;
  /** Takes a line for each step. */
  trace?: string[];
  /** Is told the index of each operation before it starts. */
  step?: (index: number) => void;
}

export function runTrial(
  places: readonly Place[],
  trial: Trial,
  options: RunOptions = {},
): Finding | undefined {
  const { every = BATCH, trace, step } = options;
  let scenario: Scenario;
  try {
    scenario = new Scenario(trial.config, places, every, trace);
  } catch (error) {
    return { rule: 'crash', during: 'creation', message: String(error), at: -1 };
  }
  const finding = scenario.run(trial.ops, step);
  // What a crash leaves behind need not be in order.
  const left = scenario.release();
  return finding ?? left;
}
