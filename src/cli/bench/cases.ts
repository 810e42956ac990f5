import type { Suite } from '../../../bench/harness/suite.js';
import type { Params, Ratio } from '../report.js';

const NAMES: Record<string, string> = { size: 'ring size', eventIdx: 'event index' };

export const paramName = (key: string): string => NAMES[key] ?? key;

export const paramValue = (value: string | number | boolean): string =>
  typeof value === 'boolean' ? (value ? 'on' : 'off') : `${value}`;

/** Names that belong to more than one engine: a title has to say which. */
export function ambiguous(found: readonly { name: string; engine: string }[]): (name: string) => boolean {
  const engines = new Map<string, Set<string>>();
  for (const { name, engine } of found) engines.set(name, (engines.get(name) ?? new Set()).add(engine));
  return (name) => (engines.get(name)?.size ?? 0) > 1;
}

/** Title of the ratios of one name, ring and engine. */
export const ratioTitle = (ratio: Ratio, withEngine: boolean): string =>
  [ratio.name.replace('/', ' / '), ratio.ring, ...(withEngine ? [ratio.engine] : [])].join(' · ');

export interface Labels {
  /** What is the same for most cases, if labels say what differs from it. */
  centre?: string;
  label(params: Params): string;
}

/** A suite's own labels, or those that follow from its cases. */
export const labelsOf = (suite: Pick<Suite, 'label'>, cases: readonly Params[]): Labels =>
  suite.label === undefined ? caseLabels(cases) : { label: suite.label };

/**
 * Short labels for cases: what makes each one differ from the values that are most common, which together
 * are the centre of the sweep.
 */
function caseLabels(cases: readonly Params[]): Labels {
  const centre = new Map<string, string | number | boolean>();
  for (const key of new Set(cases.flatMap((params) => Object.keys(params)))) {
    const counts = new Map<string | number | boolean, number>();
    for (const params of cases) counts.set(params[key], (counts.get(params[key]) ?? 0) + 1);
    const [most] = [...counts].sort((a, b) => b[1] - a[1])[0];
    centre.set(key, most);
  }
  const say = (key: string, value: string | number | boolean) => `${paramName(key)} ${paramValue(value)}`;
  return {
    centre: [...centre].map(([key, value]) => say(key, value)).join(', '),
    label(params) {
      const parts = Object.entries(params).filter(([key, value]) => value !== centre.get(key));
      return parts.length === 0 ? 'centre' : parts.map(([key, value]) => say(key, value)).join(', ');
    },
  };
}
