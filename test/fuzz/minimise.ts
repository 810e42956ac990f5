import type { Op } from './ops.js';
import type { Finding } from './scenario.js';
import { runTrial, type Trial } from './trial.js';
import type { Place } from './world.js';

/** Most runs that are spent on one finding. */
const BUDGET = 3000;

/** True if two findings are about the same thing: what a smaller list has to show. */
const alike = (a: Finding, b: Finding): boolean =>
  a.rule === b.rule && (['leak', 'bytes', 'state'].includes(a.rule) || a.during === b.during);

/**
 * Makes the list of operations as short as it gets with the same finding: delta debugging, by ever smaller
 * parts, then a simpler configuration.
 */
export function minimise(
  places: readonly Place[],
  trial: Trial,
  finding: Finding,
  beat: () => void,
): { trial: Trial; finding: Finding } {
  let budget = BUDGET;
  let best = { trial, finding };
  const fails = (candidate: Trial): boolean => {
    if (budget-- <= 0) return false;
    beat();
    const found = runTrial(places, candidate, { every: 1 });
    if (found === undefined || !alike(found, finding)) return false;
    // What comes after the operation that shows it is of no use.
    const ops = found.at >= 0 ? candidate.ops.slice(0, found.at + 1) : candidate.ops;
    best = { trial: { ...candidate, ops }, finding: found };
    return true;
  };
  if (!fails(trial)) return best;
  for (
    let part = Math.ceil(best.trial.ops.length / 2);
    part >= 1;
    part = part === 1 ? 0 : Math.ceil(part / 2)
  ) {
    for (let from = 0; from < best.trial.ops.length; ) {
      const { ops } = best.trial;
      const fewer: Op[] = [...ops.slice(0, from), ...ops.slice(from + part)];
      if (!fails({ ...best.trial, ops: fewer })) from += part;
    }
    // A single one that goes may set others free.
    if (part === 1 && best.trial.ops.length > 1) {
      const { length } = best.trial.ops;
      for (let from = 0; from < best.trial.ops.length; from++)
        fails({ ...best.trial, ops: best.trial.ops.filter((_, i) => i !== from) });
      if (best.trial.ops.length < length && budget > 0) part = 2;
    }
  }
  const simpler = {
    eventIdx: false,
    inOrder: false,
    batches: true,
    strict: false,
    translation: 'lazy',
    callbacks: false,
    indirect: false,
  } as const;
  for (const [key, value] of Object.entries(simpler))
    fails({ ...best.trial, config: { ...best.trial.config, [key]: value } });
  return best;
}
