//! The parser's tree of a path: names and the numbers of elements, one behind the other.

use sqlparser::ast::{AccessExpr, Expr, Ident, Subscript, Value as Literal, ValueWithSpan};
use sqlparser::tokenizer::Location;

use super::{Compiler, Path, Problem, Resolved, place, problem, unnested};
use crate::codec::ion_json::MAX_DEPTH;
use crate::plan::sql::expression::Expression;
use crate::plan::sql::extract::Step;
use crate::plan::sql::facts::Field;

/// Steps that a path may have: documents do not nest more deeply.
const MAX_STEPS: usize = MAX_DEPTH;

impl Compiler<'_> {
    /// What is selected: of a path the field itself, whose text is given as it stands, and its last name.
    ///
    /// # Errors
    /// What is no expression.
    pub(in crate::plan) fn selected(&mut self, tree: Expr) -> Result<(Expression, Option<String>), Problem> {
        match unnested(tree) {
            path @ Expr::CompoundFieldAccess { .. } => {
                let name = last_name(&path);
                Ok((Expression::Field(self.path(path)?.field), name))
            }
            other => Ok((self.expression(other)?, None)),
        }
    }

    /// What is tested for being there at all.
    pub(super) fn field(&mut self, tree: Expr) -> Result<Field, Problem> {
        let place = place(&tree);
        match unnested(tree) {
            path @ Expr::CompoundFieldAccess { .. } => Ok(self.path(path)?.field),
            _ => Err(problem("expected a path before IS MISSING, found something else", place)),
        }
    }

    pub(super) fn path(&mut self, tree: Expr) -> Result<Resolved, Problem> {
        let place = place(&tree);
        let Expr::CompoundFieldAccess { root, access_chain } = tree else { return Err(problem("expected a path", place)) };
        let Expr::Identifier(first) = *root else {
            return Err(problem("expected a path, found . or [ behind something else", place));
        };
        let mut steps = vec![name(first)?];
        for step in access_chain {
            steps.push(match step {
                AccessExpr::Dot(Expr::Identifier(field)) => name(field)?,
                AccessExpr::Subscript(Subscript::Index {
                    index: Expr::Value(ValueWithSpan { value: Literal::Number(digits, _), span }),
                }) => {
                    let number =
                        digits.parse().map_err(|_| problem(format!("expected the number of an element, found {digits}"), span.start))?;
                    Step::Element(number)
                }
                _ => return Err(problem("expected the name of a field or [0], found something else", place)),
            });
        }
        if steps.len() > MAX_STEPS {
            return Err(problem(format!("expected a path of at most {MAX_STEPS} names, found {}", steps.len()), place));
        }
        self.names.resolve(Path { steps, place: place.unwrap_or_else(Location::empty) })
    }
}

fn name(ident: Ident) -> Result<Step, Problem> {
    if ident.value.is_empty() {
        return Err(problem("expected the name of a field in double quotes, found an empty one", ident.span.start));
    }
    Ok(Step::Name(ident.value))
}

/// The last name of a path, where it ends with one.
fn last_name(path: &Expr) -> Option<String> {
    let Expr::CompoundFieldAccess { root, access_chain } = path else { return None };
    match (access_chain.last(), &**root) {
        (None, Expr::Identifier(name)) => Some(name.value.clone()),
        (Some(AccessExpr::Dot(Expr::Identifier(name))), _) => Some(name.value.clone()),
        _ => None,
    }
}
